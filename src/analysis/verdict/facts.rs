//! A row of facts for each verdict on a page, and for each way a startup can go: names, tone, and what a repair may do.

use super::judge::Verdict;
use super::outlook::{Outlook, Start};

/// How good or bad it is: each kind of output has a style for each tone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Nothing to do.
    Quiet,
    /// Good.
    Good,
    /// Uncertain.
    Doubt,
    /// Data is lost or stays damaged.
    Loss,
    /// The server does not start, or there is nothing to repair a page with.
    Bad,
}

/// Permitted repair of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairPlan {
    /// Write the proven image.
    Write,
    /// Write the image if unproven ones are allowed.
    IfUnprovenAllowed,
    /// Write the image if the loss of changes is allowed.
    IfLossAllowed,
    /// There is no image to write.
    NoImage,
    /// The page needs none.
    NotNeeded,
}

/// The facts about a verdict.
#[derive(Debug)]
pub struct VerdictFacts {
    /// Stable name for programs.
    pub code: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// The letter of a map of damage.
    pub letter: char,
    /// Style of its name.
    pub tone: Tone,
    /// Permitted repair.
    pub plan: RepairPlan,
    /// One sentence, without a period.
    pub meaning: &'static str,
}

impl Verdict {
    /// All verdicts, the worst first: the order of every output.
    pub const ALL: [Self; 7] = [
        Self::NoImage,
        Self::LosesChanges,
        Self::RestoreUnproven,
        Self::Rebuild,
        Self::Restore,
        Self::HealsInReplay,
        Self::Leave,
    ];

    /// The row of facts.
    pub const fn facts(self) -> &'static VerdictFacts {
        match self {
            Self::NoImage => &VerdictFacts {
                code: "no_image",
                label: "no image",
                letter: 'N',
                tone: Tone::Bad,
                plan: RepairPlan::NoImage,
                meaning: "No usable image was found in WAL, the double write buffer or the donors given",
            },
            Self::LosesChanges => &VerdictFacts {
                code: "loses_changes",
                label: "loses data",
                letter: 'L',
                tone: Tone::Loss,
                plan: RepairPlan::IfLossAllowed,
                meaning: "Every image lacks committed changes that recovery does not repeat",
            },
            Self::RestoreUnproven => &VerdictFacts {
                code: "restore_unproven",
                label: "unproven",
                letter: 'U',
                tone: Tone::Doubt,
                plan: RepairPlan::IfUnprovenAllowed,
                meaning: "An image exists and nothing rules it out, but the proof has a gap",
            },
            Self::Rebuild => &VerdictFacts {
                code: "rebuild",
                label: "rebuild",
                letter: 'B',
                tone: Tone::Good,
                plan: RepairPlan::Write,
                meaning: "A server in a sandbox rebuilt the page from an older copy and all WAL since; no committed data is lost",
            },
            Self::Restore => &VerdictFacts {
                code: "restore",
                label: "restore",
                letter: 'R',
                tone: Tone::Good,
                plan: RepairPlan::Write,
                meaning: "A proven image exists; restoring it loses no committed data",
            },
            Self::HealsInReplay => &VerdictFacts {
                code: "heals_in_replay",
                label: "fixed by recovery",
                letter: 'H',
                tone: Tone::Quiet,
                plan: RepairPlan::NotNeeded,
                meaning: "Recovery overwrites the page before anything reads it; nothing to do",
            },
            Self::Leave => &VerdictFacts {
                code: "leave",
                label: "no action",
                letter: 'O',
                tone: Tone::Quiet,
                plan: RepairPlan::NotNeeded,
                meaning: "Intact, unlogged, about to be removed, or a map page that the server treats as empty",
            },
        }
    }

    /// The word for JSON.
    pub const fn name(self) -> &'static str {
        self.facts().code
    }

    /// The page needs no repair.
    pub const fn needs_nothing(self) -> bool {
        matches!(self.facts().plan, RepairPlan::NotNeeded)
    }

    /// A page can be written that loses nothing.
    pub const fn is_proven(self) -> bool {
        matches!(self.facts().plan, RepairPlan::Write)
    }

    /// A page can be written of which nothing is known to be lost.
    pub const fn is_writable(self) -> bool {
        matches!(self.facts().plan, RepairPlan::Write | RepairPlan::IfUnprovenAllowed)
    }
}

/// Badge of the predicted startup, which every output begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Badge {
    /// The server starts.
    WillStart,
    /// It starts, and damaged pages stay or changes are lost.
    DamageRemains,
    /// It may stop on the way.
    MayNotStart,
    /// It does not start.
    WillNotStart,
    /// It starts but is unusable.
    Unusable,
    /// A server may be running.
    Running,
    /// Not known.
    Unknown,
}

impl Badge {
    /// All badges.
    pub const ALL: [Self; 7] = [
        Self::WillStart,
        Self::DamageRemains,
        Self::MayNotStart,
        Self::WillNotStart,
        Self::Unusable,
        Self::Running,
        Self::Unknown,
    ];

    const fn facts(self) -> (&'static str, Tone) {
        match self {
            Self::WillStart => ("WILL START", Tone::Good),
            Self::DamageRemains => ("WILL START, DAMAGE REMAINS", Tone::Loss),
            Self::MayNotStart => ("MAY NOT START", Tone::Doubt),
            Self::WillNotStart => ("WILL NOT START", Tone::Bad),
            Self::Unusable => ("STARTS, UNUSABLE", Tone::Bad),
            Self::Running => ("SERVER RUNNING", Tone::Doubt),
            Self::Unknown => ("UNKNOWN", Tone::Doubt),
        }
    }

    /// The words for people.
    pub const fn label(self) -> &'static str {
        self.facts().0
    }

    /// The style of these words.
    pub const fn tone(self) -> Tone {
        self.facts().1
    }
}

impl Start {
    /// The word for JSON, and its badge if no data is lost.
    const fn facts(&self) -> (&'static str, Badge) {
        match self {
            Self::Running => ("running", Badge::Running),
            Self::Unknown
            | Self::NotAllRead
            | Self::SomePagesOnly
            | Self::UnknownControl { .. }
            | Self::UnknownWal { .. }
            | Self::WalDenied
            | Self::UnusualBuild
            | Self::ClosedToReplay
            | Self::EndsAtTarget
            | Self::WalFromElsewhere => ("unknown", Badge::Unknown),
            Self::CannotBegin | Self::Refused => ("cannot_begin", Badge::WillNotStart),
            Self::NotUsable { .. } => ("not_usable", Badge::Unusable),
            Self::BackupIncomplete => ("backup_incomplete", Badge::WillNotStart),
            Self::Stops { .. } => ("stops", Badge::WillNotStart),
            Self::InvalidPages { .. } => ("invalid_pages", Badge::WillNotStart),
            Self::DependsOnDwb => ("depends_on_dwb", Badge::MayNotStart),
            Self::WithoutReplay => ("without_replay", Badge::WillStart),
            Self::MayStop { .. } => ("may_stop", Badge::MayNotStart),
            Self::Completes => ("completes", Badge::WillStart),
        }
    }

    /// The word for JSON.
    pub const fn name(&self) -> &'static str {
        self.facts().0
    }
}

impl Outlook {
    /// Badge of the startup.
    pub fn badge(&self) -> Badge {
        let badge = self.start.facts().1;
        let remains = [&self.stay, &self.passed_over, &self.server_loses, &self.server_guesses, &self.unnoticed];
        match badge {
            Badge::WillStart if self.refused_by.is_some() => Badge::WillNotStart,
            Badge::WillStart if remains.iter().any(|pages| !pages.is_empty()) => Badge::DamageRemains,
            badge => badge,
        }
    }
}
