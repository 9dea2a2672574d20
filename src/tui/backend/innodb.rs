//! Reads a data directory of MySQL or MariaDB for the screen.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::new_files::export;
use super::stamps::FileStamps;
use super::watch::StageClock;
use super::{hand_over, lock};
use crate::inspect::error::InspectError;
use crate::inspect::innodb::check::innodb_check;
use crate::inspect::innodb::source::{InnodbRequest, list_files};
use crate::tui::action::{Action, Effect};
use crate::tui::command_line::DWBINSPECT;
use crate::tui::facts::Progress;
use crate::tui::innodb::InnodbSurvey;
use crate::tui::state::{Subject, View};
use crate::tui::worker::{ActionSender, Backend};

/// Does what the screen asks for.
pub struct InnodbBackend {
    request: InnodbRequest,
    stamps: Mutex<FileStamps>,
    is_left: AtomicBool,
}

impl InnodbBackend {
    pub fn new(request: InnodbRequest) -> Self {
        Self { request, stamps: Mutex::default(), is_left: AtomicBool::new(false) }
    }

    pub fn subject(&self) -> Subject {
        Subject {
            program: DWBINSPECT,
            path: self.request.data_dir.display().to_string(),
            arguments: self.request.arguments(),
            views: View::OF_INNODB.to_vec(),
            ..Subject::default()
        }
    }

    fn survey(&self, sender: &ActionSender) -> Result<InnodbSurvey, InspectError> {
        // Before anything is read: what changes meanwhile has changed.
        *lock(&self.stamps) = FileStamps::of(self.paths());
        let clock = StageClock::default();
        let watch = |done, total| {
            let left_s = clock.left_s((), done, total);
            let what = if total == 0 { "reading the doublewrite buffer" } else { "checking every page" };
            sender.progress(Action::Progressed, Progress { what, done, total, step: None, left_s });
            if self.is_left.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let examined = innodb_check(&self.request, false, &watch)?;
        Ok(InnodbSurvey::new(examined, &self.request.arguments()))
    }

    fn paths(&self) -> Vec<PathBuf> {
        let root = &self.request.data_dir;
        let Ok(files) = list_files(&self.request) else { return vec![root.clone()] };
        let all = files.system.iter().chain(&files.spaces).chain(&files.redo_directory).chain(&files.redo_file);
        let doublewrite = files.doublewrite.iter().map(|(_, path)| path);
        all.chain(doublewrite).map(|path| root.join(path)).collect()
    }
}

impl Backend for InnodbBackend {
    fn work(&self, effect: Effect, sender: &ActionSender) {
        match effect {
            Effect::Survey => {
                let survey = self.survey(sender).map(|survey| Action::InnodbSurveyed(Arc::new(survey)));
                hand_over(sender, Action::SurveyFailed, survey);
            }
            Effect::Export { name, text, json } => {
                let written = self.request.protected().and_then(|protected| export(&name, &text, &json, &protected));
                hand_over(sender, Action::Failed, written.map(Action::Exported));
            }
            _ => {}
        }
    }

    fn has_changed(&self) -> bool {
        lock(&self.stamps).have_changed()
    }

    fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}
