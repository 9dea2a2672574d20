//! The views, the parts of the page view, the columns of slots, and the levels and scales of WAL.

/// The views, in the order of the tabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    #[default]
    Triage,
    Batches,
    Slots,
    Page,
    Wal,
    Plan,
    Map,
    /// Relations of the window on WAL: a tab of `pg_walfpi`.
    Relations,
    /// Causes of its images: a tab of `pg_walfpi`.
    Causes,
    /// Savings of other settings: a tab of `pg_walfpi`.
    WhatIf,
    /// Holders of the segments of `pg_wal`: a tab of `pg_walfpi` for a data directory.
    Kept,
    Pages,
    InnodbPage,
    /// Every finding, one by one: no tab, opened from the triage.
    Findings,
    /// Next steps, ticked as they are done: no tab, opened with a key.
    Steps,
    /// The last check before a plan is applied: no tab, opened from the plan.
    Apply,
    /// The last look before a repair is taken back: no tab, opened from the plan.
    Undo,
}

impl View {
    pub const ALL: [Self; 7] = [Self::Triage, Self::Batches, Self::Slots, Self::Page, Self::Wal, Self::Plan, Self::Map];

    /// The tabs of `pg_walfpi`.
    pub const OF_WAL: [Self; 5] = [Self::Wal, Self::Relations, Self::Causes, Self::WhatIf, Self::Kept];

    /// The tabs of MySQL and MariaDB.
    pub const OF_INNODB: [Self; 2] = [Self::Pages, Self::InnodbPage];

    /// The tabs that a program with these views can have, numbered from 1.
    pub(crate) fn tabs_of(views: &[Self]) -> &[Self] {
        if views.contains(&Self::Triage) { &Self::ALL } else { views }
    }

    /// On a wide screen, all about the selected line is shown beside the list.
    pub(crate) const fn has_detail(self) -> bool {
        matches!(self, Self::Triage | Self::Findings | Self::Slots | Self::Page | Self::Wal | Self::Pages)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Triage => "Triage",
            Self::Batches => "Batches",
            Self::Slots => "Slots",
            Self::Pages => "Pages",
            Self::Page | Self::InnodbPage => "Page",
            Self::Wal => "WAL",
            Self::Plan => "Plan",
            Self::Map => "Map",
            Self::Relations => "Relations",
            Self::Causes => "Causes",
            Self::WhatIf => "What if",
            Self::Kept => "Kept",
            Self::Findings => "Findings",
            Self::Steps => "Steps",
            Self::Apply => "Apply",
            Self::Undo => "Undo",
        }
    }

    /// Its tab in a program with these tabs.
    pub(crate) fn tab(self, views: &[Self]) -> Self {
        match self {
            Self::Findings | Self::Steps if views.contains(&Self::Pages) => Self::Pages,
            Self::Findings | Self::Steps => Self::Triage,
            Self::Apply | Self::Undo => Self::Plan,
            view => view,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PagePart {
    #[default]
    Verdict,
    Rows,
    /// Bytes side by side.
    Bytes,
    Header,
    Wal,
}

impl PagePart {
    pub const ALL: [Self; 5] = [Self::Verdict, Self::Rows, Self::Bytes, Self::Header, Self::Wal];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Header => "header",
            Self::Wal => "records",
        }
    }

    /// It is a list of which one line is selected.
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::Rows | Self::Wal)
    }
}

/// Columns that slots are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    #[default]
    Slot,
    Page,
    PageLsn,
    Condition,
    Batch,
    Disk,
}

impl Column {
    pub const ALL: [Self; 6] = [Self::Slot, Self::Page, Self::PageLsn, Self::Condition, Self::Batch, Self::Disk];
}

/// How a rate becomes a height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Its square root: small rates next to a peak can be seen.
    #[default]
    Root,
    Linear,
    Log,
}

impl Scale {
    const DECADES: f64 = 1000.0;

    pub const ALL: [Self; 3] = [Self::Root, Self::Linear, Self::Log];

    pub const fn name(self, ascii: bool) -> &'static str {
        match self {
            Self::Root if ascii => "square root",
            Self::Root => "√",
            Self::Linear => "linear",
            Self::Log => "log",
        }
    }

    pub fn height(self, share: f64) -> f64 {
        match self {
            Self::Root => share.sqrt(),
            Self::Linear => share,
            Self::Log => (share * (Self::DECADES - 1.0)).ln_1p() / Self::DECADES.ln(),
        }
    }

    pub fn share_at(self, height: f64) -> f64 {
        match self {
            Self::Root => height * height,
            Self::Linear => height,
            Self::Log => (height * Self::DECADES.ln()).exp_m1() / (Self::DECADES - 1.0),
        }
    }
}

/// How far WAL was drilled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalLevel {
    #[default]
    Timeline,
    Stretches,
    Records,
    Record,
}
