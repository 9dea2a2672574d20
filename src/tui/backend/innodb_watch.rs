//! Tells the screen how far an examination of MySQL or MariaDB is, and which damaged pages are known already.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::lock;
use super::watch::{StageClock, Untold};
use crate::analysis::innodb::scan::FoundPage;
use crate::inspect::innodb::check::{InnodbStage, InnodbWatch};
use crate::inspect::innodb::source::InnodbSource;
use crate::tui::facts::Progress;
use crate::tui::innodb::action::InnodbAction as Action;
use crate::tui::innodb::facts::PendingPage;
use crate::tui::worker::ActionSender;

/// The last step, which follows the examination: slots are compared with pages.
pub(super) const COMPARING: usize = 4;

/// Tells the screen how far it is, as long as it is wanted.
pub(super) struct InnodbScreenWatch<'a> {
    sender: &'a ActionSender<Action>,
    wanted: &'a dyn Fn() -> ControlFlow<()>,
    clock: StageClock<InnodbStage>,
    untold: Mutex<Untold<PendingPage>>,
}

impl<'a> InnodbScreenWatch<'a> {
    pub(super) fn new(sender: &'a ActionSender<Action>, wanted: &'a dyn Fn() -> ControlFlow<()>) -> Self {
        Self { sender, wanted, clock: StageClock::default(), untold: Mutex::new(Untold::new()) }
    }
}

impl InnodbWatch for InnodbScreenWatch<'_> {
    fn at(&self, stage: InnodbStage, done: u64, total: u64) -> ControlFlow<()> {
        let (what, step) = match stage {
            InnodbStage::Buffer => ("reading the doublewrite buffer", 1),
            InnodbStage::Scan => ("checking every page", 2),
            InnodbStage::Judge => ("judging damaged pages", 3),
        };
        let left_s = self.clock.left_s(stage, done, total);
        let progress = Progress { what, done, total, step: Some((step, COMPARING)), left_s };
        self.sender.progress(Action::Progressed, progress);
        if let Some(pages) = lock(&self.untold).due() {
            self.sender.action(Action::Found(pages));
        }
        (self.wanted)()
    }

    fn found(&self, source: &InnodbSource, found: &[FoundPage]) {
        let mut untold = lock(&self.untold);
        // Pages of one piece are of one tablespace.
        let mut named: Option<(usize, Arc<str>, u64)> = None;
        for page in found.iter().filter(|page| page.state.is_damaged()) {
            if untold.is_full() {
                return;
            }
            if named.as_ref().is_none_or(|(space, ..)| *space != page.space) {
                let Some(space) = source.spaces.all.get(page.space) else { continue };
                named = Some((page.space, space.name().into(), space.pages()));
            }
            if let Some((space, called, pages)) = named.clone() {
                untold.push(PendingPage { space, called, pages, page_no: page.page_no });
            }
        }
    }
}
