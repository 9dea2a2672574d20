//! Next steps for a directory of MySQL or MariaDB. Nothing is repaired here, and startup is not predicted.

use crate::analysis::innodb::judge::{HeldImage, InnodbPage};

/// A next step; with a command where a command does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnodbStep {
    /// What, and why.
    pub words: String,
    /// The command.
    pub command: Option<String>,
}

fn count_of(count: usize) -> String {
    if count == 1 { "1 page".to_owned() } else { format!("{count} pages") }
}

/// The next steps, in order. `arguments`: the directory as arguments of a command. `is_complete`: everything was checked.
#[must_use]
pub fn innodb_steps(pages: &[InnodbPage], is_complete: bool, arguments: &str) -> Vec<InnodbStep> {
    let wrong: Vec<&InnodbPage> = pages.iter().filter(|page| page.is_wrong()).collect();
    let step = |words: String, command: Option<String>| InnodbStep { words, command };
    if wrong.is_empty() {
        let words = match is_complete {
            false => "No damaged page was found. Something was not checked: see the findings.",
            true => "Every page passes its checks. See the findings before you start the server.",
        };
        return vec![step(words.to_owned(), None)];
    }
    let dump = format!("pg_dwbinspect innodb dump --images NEW_DIR {arguments}");
    let mut steps = vec![step(
        "Copy the directory and save the images before any startup: startup overwrites slots.".to_owned(),
        Some(dump),
    )];
    let count = |helds: &[HeldImage]| wrong.iter().filter(|page| helds.contains(&page.held)).count();
    let groups: [(&[HeldImage], &str); 4] = [
        (
            &[HeldImage::Newer, HeldImage::Same, HeldImage::Older],
            "the buffer holds a whole image; compare it with a backup",
        ),
        (&[HeldImage::Encrypted], "the image is encrypted; only a server with the key can read it"),
        (&[HeldImage::Missing, HeldImage::Unreadable], "no usable image; only a backup may have the contents"),
        (&[HeldImage::Unknown], "images are unknown; find the doublewrite buffer (--doublewrite-dir, --my-cnf)"),
    ];
    for (helds, words) in groups {
        let count = count(helds);
        if count > 0 {
            steps.push(step(format!("{}: {words}.", count_of(count)), None));
        }
    }
    steps.push(step(
        "Start a server only on the copy. Verify the copy after a clean shutdown.".to_owned(),
        Some("pg_dwbinspect innodb verify COPY".to_owned()),
    ));
    steps
}
