//! Reads a data directory of MySQL or MariaDB for the screen.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::watch::StageClock;
use super::{ActionSender, Backend, FileStamps, WorkError, export, hand_over, lock, write_all};
use crate::inspect::check::Stage;
use crate::inspect::error::InspectError;
use crate::inspect::innodb::check::innodb_check;
use crate::inspect::innodb::source::{InnodbRequest, list_files};
use crate::inspect::now_text;
use crate::output::closing::Closing;
use crate::output::report::crash::Pressed;
use crate::output::report::{InnodbReport, Provenance};
use crate::tui::action::{Action, Effect};
use crate::tui::command_line::DWBINSPECT;
use crate::tui::facts::Progress;
use crate::tui::innodb::InnodbSurvey;
use crate::tui::state::{Subject, View};

pub struct InnodbBackend {
    request: InnodbRequest,
    stamps: Mutex<FileStamps>,
    /// The last check, and when it was begun.
    survey: Mutex<Option<(Arc<InnodbSurvey>, String)>>,
    is_left: AtomicBool,
}

impl InnodbBackend {
    pub fn new(request: InnodbRequest) -> Self {
        Self { request, stamps: Mutex::default(), survey: Mutex::default(), is_left: AtomicBool::new(false) }
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

    fn survey(&self, sender: &ActionSender) -> Result<Arc<InnodbSurvey>, InspectError> {
        // Before anything is read: what changes meanwhile has changed.
        *lock(&self.stamps) = FileStamps::of(self.paths());
        let (clock, time) = (StageClock::default(), now_text());
        let watch = |done, total| {
            let left_s = clock.left_s(Stage::Scan, done, total);
            let what = if total == 0 { "reading the doublewrite buffer" } else { "checking every page" };
            sender.progress(Action::Progressed, Progress { what, done, total, step: None, left_s });
            if self.is_left.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let examined = innodb_check(&self.request, false, &watch)?;
        let survey = Arc::new(InnodbSurvey::new(examined, &self.request.arguments()));
        *lock(&self.survey) = Some((Arc::clone(&survey), time));
        Ok(survey)
    }

    fn report(&self, pressed: &[Pressed]) -> Result<PathBuf, WorkError> {
        let (survey, time) = lock(&self.survey).clone().ok_or(WorkError::NotReadYet)?;
        if self.has_changed() {
            return Err(WorkError::ChangedSince);
        }
        let examined = &survey.examined;
        let command_line = format!("{DWBINSPECT} innodb tui {}", self.request.arguments());
        let report = InnodbReport {
            made: &Provenance { command_line, time },
            program: DWBINSPECT,
            data_dir: self.request.data_dir.display().to_string(),
            setting: examined.source.setting(),
            pages: &examined.pages,
            counts: &examined.scan.counts,
            closing: &Closing::new(examined.findings.clone(), &examined.coverage),
            steps: &survey.steps,
            pressed,
        };
        let document = report.document();
        let (html, markdown) = (document.html(), document.markdown());
        Ok(write_all("innodb_crash_report", &[("html", &html), ("md", &markdown)], &self.request.protected()?)?)
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
                let survey = self.survey(sender).map(Action::InnodbSurveyed);
                hand_over(sender, Action::SurveyFailed, survey);
            }
            Effect::Export { name, text, json } => {
                hand_over(sender, Action::Failed, export(&name, &text, &json, self.request.protected()));
            }
            Effect::Report(pressed) => {
                hand_over(sender, Action::Failed, self.report(&pressed).map(Action::Reported));
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
