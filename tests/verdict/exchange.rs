//! Files of one cluster or moment in place of those of another: a check never says that all is well, and proves no page by them.
//!
//! The clusters are undamaged before a part of them is exchanged, so every proven page is one too many, but for the pages that
//! were exchanged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::rebuild::{PAGE, RebuildCase, overwrite, page_of};
use crate::common::{arg, cluster, copy_tree, dwbinspect, temporary};

/// Whose part takes the place of that of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Other {
    /// The same cluster, earlier.
    Earlier,
    /// Another cluster of the same major.
    Cluster,
}

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Page,
    RelationFile,
    Fork,
    Database,
    Base,
    Global,
    PgXact,
    PgMultixact,
    PgCommitTs,
    PgControl,
    PgWal,
    Segment,
    Archive,
    Donor,
}

const PARTS: [Part; 12] = [
    Part::Page,
    Part::RelationFile,
    Part::Fork,
    Part::Database,
    Part::Base,
    Part::Global,
    Part::PgXact,
    Part::PgMultixact,
    Part::PgCommitTs,
    Part::PgControl,
    Part::PgWal,
    Part::Segment,
];

/// What an answer says that the files do not bear out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Miss {
    /// `check` ends with status 0.
    Check,
    /// `verify` ends with status 0.
    Verify,
    /// A page is proven that was not exchanged, or by something that is not this cluster's.
    Proven,
}

/// What is missed, and why.
type Known = (&'static str, Other, Part, Miss, &'static str);

/// What is known to be missed. The test fails where one of these is found, too: then it goes from here and from
/// `docs/reliability.md`.
const KNOWN: &[Known] = &[
    (
        "rebuild",
        Other::Earlier,
        Part::Page,
        Miss::Verify,
        "a whole older page passes its checks, and only WAL shows it",
    ),
    (
        "rebuild",
        Other::Earlier,
        Part::Database,
        Miss::Verify,
        "files of an earlier moment pass their checks one by one, and only WAL shows it",
    ),
    (
        "rebuild",
        Other::Earlier,
        Part::Base,
        Miss::Proven,
        "the archive has all WAL since that moment: tables of which every page can be built come back",
    ),
    ("dwb", Other::Cluster, Part::Fork, Miss::Check, "a map that has fewer bits costs no row"),
    ("dwb", Other::Cluster, Part::Fork, Miss::Verify, "a map that has fewer bits costs no row"),
    (
        "dwb",
        Other::Cluster,
        Part::PgXact,
        Miss::Check,
        "it has all transactions as committed that rows name so, and after a clean shutdown no record tells of others",
    ),
    ("dwb", Other::Cluster, Part::PgXact, Miss::Verify, "as for check"),
];

/// A cluster whose parts are exchanged for those of another one.
struct Pair {
    name: &'static str,
    other: Other,
    cluster: PathBuf,
    from: PathBuf,
    archive: Option<PathBuf>,
}

/// Files of a directory and of those below, relative to it; none where it is a file or absent.
fn files_below(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(root).expect("below").to_owned());
            }
        }
    }
    found
}

fn equal(one: &Path, other: &Path) -> bool {
    if one.is_file() || other.is_file() {
        return fs::read(one).ok() == fs::read(other).ok();
    }
    let files = files_below(one);
    files == files_below(other) && files.iter().all(|file| equal(&one.join(file), &other.join(file)))
}

/// Where the first block lies that differs, from the end.
fn last_other_block(one: &Path, other: &Path) -> Option<u64> {
    let (one, other) = (fs::read(one).ok()?, fs::read(other).ok()?);
    let differ = |(one, other): (&[u8], &[u8])| one != other && one.iter().any(|byte| *byte != 0);
    let pages: Vec<_> = one.chunks_exact(PAGE).zip(other.chunks_exact(PAGE)).collect();
    pages.iter().rposition(|pages| differ(*pages)).map(|at| at as u64)
}

impl Pair {
    /// The largest file of user tables that both have and that differs, of the main fork or of a map.
    fn relation_file(&self, is_main: bool) -> Option<PathBuf> {
        let base = self.cluster.join("base");
        let is_wanted = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.split('_').next().and_then(|number| number.parse::<u32>().ok());
            number.is_some_and(|number| number >= 16384)
                && name.ends_with("_vm") != is_main
                && (!is_main || !name.contains('_'))
        };
        let files = files_below(&base);
        let differing = files
            .iter()
            .filter(is_wanted)
            .filter(|path| last_other_block(&base.join(path), &self.from.join("base").join(path)).is_some());
        let size = |path: &&PathBuf| fs::metadata(base.join(path)).map_or(0, |meta| meta.len());
        differing.max_by_key(size).map(|path| Path::new("base").join(path))
    }

    /// The path of a part.
    fn path_of(&self, part: Part) -> Option<PathBuf> {
        let path = match part {
            Part::Page | Part::RelationFile => return self.relation_file(true),
            Part::Fork => return self.relation_file(false),
            Part::Database => return self.relation_file(true)?.parent().map(Path::to_owned),
            Part::Segment => {
                let names = files_below(&self.cluster.join("pg_wal"));
                let is_segment = |name: &&PathBuf| name.as_os_str().len() == 24;
                return names.iter().rfind(is_segment).map(|name| Path::new("pg_wal").join(name));
            }
            Part::Base => "base",
            Part::Global => "global",
            Part::PgXact => "pg_xact",
            Part::PgMultixact => "pg_multixact",
            Part::PgCommitTs => "pg_commit_ts",
            Part::PgControl => "global/pg_control",
            Part::PgWal => "pg_wal",
            Part::Archive | Part::Donor => return None,
        };
        Some(path.into())
    }

    /// The file that takes the place of a part. A segment of another name is none of the cluster's.
    fn source_of(&self, part: Part, path: &Path) -> Option<PathBuf> {
        let same = self.from.join(path);
        if part != Part::Segment || same.exists() {
            return same.exists().then_some(same);
        }
        let archived = self.from.with_file_name("archive").join(path.file_name()?);
        archived.exists().then_some(archived)
    }

    /// Exchanges a part, and gives what a check and `verify` miss then; `None` where there is nothing to exchange.
    fn misses(&self, part: Part) -> Option<Vec<Miss>> {
        let path = self.path_of(part)?;
        let (own, source) = (self.cluster.join(&path), self.source_of(part, &path)?);
        if equal(&own, &source) {
            return None;
        }
        let keep = self.cluster.with_file_name("kept");
        if part == Part::Page {
            let block = last_other_block(&own, &source)?;
            let page = page_of(&own, block);
            overwrite(&own, block, &page_of(&source, block));
            let misses = self.ask(Some(&path));
            overwrite(&own, block, &page);
            return Some(misses);
        }
        fs::rename(&own, &keep).expect("keep");
        if source.is_dir() {
            copy_tree(&source, &own);
        } else {
            fs::copy(&source, &own).expect("copy");
        }
        let exchanged = matches!(part, Part::RelationFile | Part::Fork | Part::Database).then_some(path.as_path());
        let misses = self.ask(exchanged);
        if own.is_dir() {
            fs::remove_dir_all(&own).expect("remove");
        }
        fs::rename(&keep, &own).expect("put back");
        Some(misses)
    }

    fn ask(&self, exchanged: Option<&Path>) -> Vec<Miss> {
        let mut misses = Vec::new();
        let mut args = vec!["check", "--format", "ndjson", arg(&self.cluster)];
        if let Some(archive) = &self.archive {
            args.extend(["--wal", arg(archive)]);
        }
        let check = dwbinspect(&args);
        if check.status == 0 {
            misses.push(Miss::Check);
        }
        let is_exchanged = |page: &Value| {
            let path = page["path"].as_str().map(Path::new).unwrap_or(Path::new(""));
            exchanged.is_some_and(|exchanged| path.starts_with(exchanged))
        };
        if proven(&check.of_type("page")).iter().any(|page| !is_exchanged(page)) {
            misses.push(Miss::Proven);
        }
        if dwbinspect(&["verify", "--format", "ndjson", arg(&self.cluster)]).status == 0 {
            misses.push(Miss::Verify);
        }
        misses.sort();
        misses
    }
}

/// The pages of which it is said that they can be put back or rebuilt without loss.
fn proven(pages: &[Value]) -> Vec<&Value> {
    let is_doubted = |page: &Value| {
        let reasons = page["reason_codes"].as_array().into_iter().flatten();
        let of_cluster = page["candidates"].as_array().into_iter().flatten();
        let said = of_cluster.flat_map(|candidate| candidate["evidence"].as_array().into_iter().flatten());
        !reasons.into_iter().any(|reason| reason == "can_be_rebuilt")
            || said.into_iter().any(|step| step["weight"] == "missing")
    };
    pages
        .iter()
        .filter(|page| page["verdict"] == "restore" || page["verdict"] == "rebuild" || !is_doubted(page))
        .collect()
}

/// Compares what is missed with what is known to be.
fn assert_known(name: &str, found: &[(Other, Part, Miss)]) {
    let found: BTreeSet<_> = found.iter().copied().collect();
    let known: BTreeSet<_> =
        KNOWN.iter().filter(|known| known.0 == name).map(|known| (known.1, known.2, known.3)).collect();
    let new: Vec<_> = found.difference(&known).collect();
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{name}: missed and not known: {new:#?}; known and not missed: {gone:#?}"
    );
}

fn exchange_all(pairs: &[Pair]) {
    let mut found = Vec::new();
    for pair in pairs {
        let mut args = vec!["check", "--format", "ndjson", arg(&pair.cluster)];
        if let Some(archive) = &pair.archive {
            args.extend(["--wal", arg(archive)]);
        }
        let sound = dwbinspect(&args);
        assert!(proven(&sound.of_type("page")).is_empty(), "{}: nothing is damaged yet", pair.name);
        let mut exchanged = 0;
        for part in PARTS {
            let Some(misses) = pair.misses(part) else { continue };
            exchanged += 1;
            found.extend(misses.into_iter().map(|miss| (pair.other, part, miss)));
        }
        assert!(exchanged > 5, "{}: {exchanged} parts were exchanged", pair.name);
    }
    assert_known(pairs[0].name, &found);
}

#[test]
#[ignore = "copies clusters and checks each 12 times; about a minute"]
fn parts_of_another_time_or_cluster_are_never_taken_for_its_own() {
    let (case, other) = (RebuildCase::sound("pg15_fpwoff"), RebuildCase::sound("pg15_fpwon_gap"));
    let pair = |kind, from| Pair {
        name: "rebuild",
        other: kind,
        cluster: case.cluster(),
        from,
        archive: Some(case.archive()),
    };
    exchange_all(&[pair(Other::Earlier, case.donor()), pair(Other::Cluster, other.cluster())]);
}

#[test]
#[ignore = "copies clusters and checks each 12 times; about a minute"]
fn parts_of_another_cluster_are_never_taken_for_its_own_without_an_archive() {
    let place = temporary();
    let copy = place.path().join("clean");
    copy_tree(&cluster("clean"), &copy);
    let pair = Pair { name: "dwb", other: Other::Cluster, cluster: copy, from: cluster("checkpoint"), archive: None };
    exchange_all(&[pair]);
}

#[test]
#[ignore = "copies clusters; several checks"]
fn archives_and_donors_of_another_cluster_prove_nothing() {
    let (case, other) = (RebuildCase::of("pg15_fpwoff"), RebuildCase::of("pg15_fpwon_gap"));
    let (own, of_case, of_other) = (case.cluster(), (case.archive(), case.donor()), (other.archive(), other.donor()));
    let mut found = Vec::new();
    for (part, archive, donor) in [(Part::Archive, &of_other.0, &of_case.1), (Part::Donor, &of_case.0, &of_other.1)] {
        let with =
            dwbinspect(&["check", "--format", "ndjson", "--wal", arg(archive), "--donor", arg(donor), arg(&own)]);
        let without = dwbinspect(&["check", "--format", "ndjson", "--wal", arg(&of_case.0), arg(&own)]);
        // A donor of another cluster may leave what the cluster's own WAL proves.
        let allowed = if part == Part::Donor { proven(&without.of_type("page")).len() } else { 0 };
        if proven(&with.of_type("page")).len() > allowed {
            found.push((Other::Cluster, part, Miss::Proven));
        }
        if with.status == 0 {
            found.push((Other::Cluster, part, Miss::Check));
        }
    }
    assert_known("damaged", &found);
}
