//! Clusters with damaged pages, an older copy of each, all of its WAL, and the truth about every damaged page.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{copy_tree, unpack};

/// Bytes of a page.
pub const PAGE: usize = 8192;

/// A copy of one case, to be changed.
pub struct RebuildCase {
    _keep: tempfile::TempDir,
    root: PathBuf,
    truth: Value,
}

/// A page that is damaged in the cluster.
pub struct TruePage {
    pub path: String,
    pub block: u64,
    pub records: u64,
    pub damage: String,
    /// The page as the server had written it.
    pub bytes: Vec<u8>,
}

impl RebuildCase {
    /// A copy of the case.
    pub fn of(name: &str) -> Self {
        let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory");
        let root = keep.path().join(name);
        copy_tree(&unpack::data_dir(&format!("rebuild/{name}")).expect("unpack fixture"), &root);
        let truth = fs::read(root.join("truth.json")).expect("truth");
        Self { _keep: keep, root, truth: serde_json::from_slice(&truth).expect("JSON") }
    }

    /// The same without damage.
    pub fn sound(name: &str) -> Self {
        let case = Self::of(name);
        for page in case.pages() {
            case.write(&page.path, page.block, &page.bytes);
        }
        case
    }

    pub fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    pub fn donor(&self) -> PathBuf {
        self.root.join("donor")
    }

    pub fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    /// The pages that are damaged in the fixture.
    pub fn pages(&self) -> Vec<TruePage> {
        let pages = self.truth["pages"].as_array().expect("pages").iter();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        pages
            .map(|page| TruePage {
                path: text(&page["path"]),
                block: page["block"].as_u64().expect("block"),
                records: page["records"].as_u64().expect("records"),
                damage: text(&page["damage"]),
                bytes: fs::read(self.root.join(text(&page["truth_file"]))).expect("true page"),
            })
            .collect()
    }

    /// A page of the cluster.
    pub fn read(&self, path: &str, block: u64) -> Vec<u8> {
        page_of(&self.cluster().join(path), block)
    }

    /// Overwrites a page of the cluster.
    pub fn write(&self, path: &str, block: u64, bytes: &[u8]) {
        overwrite(&self.cluster().join(path), block, bytes);
    }
}

/// A page of a file.
pub fn page_of(path: &Path, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let file = fs::File::open(path).expect("open");
    file.read_exact_at(&mut bytes, block * PAGE as u64).expect("read");
    bytes
}

/// Overwrites a page of a file.
pub fn overwrite(path: &Path, block: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("open");
    file.write_all_at(bytes, block * PAGE as u64).expect("write");
}
