//! Work on a data directory of MySQL or MariaDB.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::innodb_watch::{COMPARING, InnodbScreenWatch};
use super::new_files::export;
use super::stamps::FileStamps;
use super::watch::StageClock;
use super::{WorkError, hand_over, lock};
use crate::analysis::finding::Coverage;
use crate::analysis::innodb::batches::batches;
use crate::analysis::innodb::compare::InnodbComparison;
use crate::analysis::innodb::slot::{SlotFacts, SlotId};
use crate::cluster::innodb::tablespace::PageReader;
use crate::inspect::error::InspectError;
use crate::inspect::innodb::check::innodb_check;
use crate::inspect::innodb::source::{InnodbRequest, list_files};
use crate::inspect::now::now_text;
use crate::output::check_text::letter;
use crate::output::closing::Closing;
use crate::output::innodb_steps::innodb_steps;
use crate::output::shell::quoted;
use crate::tui::command_line::DWBINSPECT;
use crate::tui::facts::Progress;
use crate::tui::innodb::action::{InnodbAction as Action, InnodbEffect as Effect};
use crate::tui::innodb::export::{report_json, report_text};
use crate::tui::innodb::facts::{
    InnodbPageSheet, InnodbSurvey, PageTarget, SheetImage, SlotLine, SlotSheet, slot_name,
};
use crate::tui::innodb::state::InnodbSubject;
use crate::tui::worker::{ActionSender, Backend};

/// Images of a page that are read: the one that the server takes, and the newest.
const MAX_IMAGES: usize = 33;

/// Reads a data directory.
pub struct InnodbBackend {
    request: InnodbRequest,
    arguments: String,
    survey: Mutex<Option<Arc<InnodbSurvey>>>,
    stamps: Mutex<FileStamps>,
    is_left: AtomicBool,
}

impl InnodbBackend {
    /// Before anything is read.
    #[must_use]
    pub fn new(request: InnodbRequest) -> Self {
        let mut arguments = String::new();
        if let Some(elsewhere) = &request.doublewrite_dir {
            arguments = format!("--doublewrite-dir {} ", quoted(&elsewhere.display().to_string()));
        }
        if let Some(file) = &request.my_cnf {
            arguments.push_str(&format!("--my-cnf {} ", quoted(&file.display().to_string())));
        }
        arguments.push_str(&quoted(&request.data_dir.display().to_string()));
        Self { request, arguments, survey: Mutex::default(), stamps: Mutex::default(), is_left: AtomicBool::new(false) }
    }

    /// What the screen is opened on.
    #[must_use]
    pub fn subject(&self) -> InnodbSubject {
        let path = self.request.data_dir.display().to_string();
        InnodbSubject { program: DWBINSPECT, path, arguments: self.arguments.clone() }
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.is_left.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn survey(&self, sender: &ActionSender<Action>) -> Result<Arc<InnodbSurvey>, InspectError> {
        // Before anything is read: what changes meanwhile has changed.
        *lock(&self.stamps) = FileStamps::of(self.paths());
        let time = now_text();
        let examined = innodb_check(&self.request, false, &InnodbScreenWatch::new(sender, &|| self.flow()))?;
        let closing = Closing::new(examined.findings.clone(), &examined.coverage);
        let is_complete = examined.coverage.skipped.is_empty();
        let steps = innodb_steps(&examined.pages, is_complete, &self.arguments);
        let groups = batches(&examined.content, examined.source.checkpoint());
        let mut survey = InnodbSurvey {
            answer: closing.answer(),
            damaged: examined.pages.iter().filter(|page| page.state.is_damaged()).count(),
            batches: groups,
            steps,
            time,
            page_texts: Vec::new(),
            slot_texts: Vec::new(),
            examined,
        };
        survey.page_texts = survey.examined.pages.iter().map(|page| survey.page_text(page)).collect();
        let lines = (0..survey.slot_lines()).filter_map(|at| survey.slot_line(at));
        survey.slot_texts = lines.map(|line| survey.slot_text(line, None)).collect();
        let survey = Arc::new(survey);
        *lock(&self.survey) = Some(Arc::clone(&survey));
        Ok(survey)
    }

    /// Files whose change makes what is shown outdated.
    fn paths(&self) -> Vec<PathBuf> {
        let root = &self.request.data_dir;
        let Ok(files) = list_files(&self.request) else {
            return vec![root.clone()];
        };
        let all = files.system.iter().chain(&files.spaces).chain(&files.redo_directory).chain(&files.redo_file);
        let doublewrite = files.doublewrite.iter().map(|(_, path)| path);
        all.chain(doublewrite).map(|path| root.join(path)).collect()
    }

    /// Compares every slot with the page that it names, as long as this is the last check.
    fn compare(&self, survey: &Arc<InnodbSurvey>, sender: &ActionSender<Action>) -> Option<SlotSheet> {
        let source = &survey.examined.source;
        let context = survey.examined.context();
        let mut reader = PageReader::new(&source.root);
        // What cannot be read was told by the check.
        let mut coverage = Coverage::default();
        let mut buf = Vec::new();
        let total = survey.slot_lines();
        let clock = StageClock::default();
        let (words, texts) = (Vec::with_capacity(total), Vec::with_capacity(total));
        let mut sheet = SlotSheet { survey: Arc::clone(survey), words, texts };
        let bytes = source.doublewrite.page_bytes as u64;
        for at in 0..total {
            let (done, all) = ((at as u64).saturating_mul(bytes), (total as u64).saturating_mul(bytes));
            let (step, left_s) = (Some((COMPARING, COMPARING)), clock.left_s((), done, all));
            let progress = Progress { what: "comparing images with pages", done, total: all, step, left_s };
            sender.progress(Action::Progressed, progress);
            let is_last = lock(&self.survey).as_ref().is_some_and(|last| Arc::ptr_eq(last, survey));
            if self.flow().is_break() || !is_last {
                return None;
            }
            let line = survey.slot_line(at)?;
            let word = match line {
                SlotLine::Slot(facts) => {
                    let file = source.doublewrite.files.get(facts.slot.0);
                    match file.and_then(|file| file.slot(facts.slot.1, &mut buf).ok().flatten()) {
                        Some(image) => context.compare_slot(facts, image, &mut reader, &mut coverage),
                        None => (InnodbComparison::Unknown, None),
                    }
                }
                SlotLine::Entry(entry) => source.compare_entry(entry, &mut reader, &mut coverage),
            };
            sheet.texts.push(survey.slot_text(line, Some(&word)));
            sheet.words.push(word);
        }
        Some(sheet)
    }

    /// Writes the crash report of the last check, as long as nothing has changed since.
    fn report(&self) -> Result<PathBuf, WorkError> {
        let survey = lock(&self.survey).clone().ok_or(WorkError::NotReadYet)?;
        let subject = self.subject();
        let (text, json) = (report_text(&subject, &survey), report_json(&subject, &survey));
        if self.has_changed() {
            return Err(WorkError::ChangedSince);
        }
        Ok(export("innodb_crash_report", &text, &json, &self.request.protected()?)?)
    }

    fn page(&self, survey: &Arc<InnodbSurvey>, target: PageTarget) -> InnodbPageSheet {
        let source = &survey.examined.source;
        let content = &survey.examined.content;
        let mut coverage = Coverage::default();
        let mut reader = PageReader::new(&source.root);
        let listed = target.listed.and_then(|at| survey.examined.pages.get(at)).cloned();
        let page = listed.or_else(|| {
            let context = survey.examined.context();
            let found = source.look_up(target.page, &mut reader, &mut coverage)?;
            context.judge(&found, &mut reader, &mut coverage)
        });
        let space = match &page {
            Some(page) => source.spaces.all.get(page.space),
            None => source.spaces.get(target.page.space_id),
        };
        let disk = space.filter(|_| page.is_some()).and_then(|space| match reader.page(space, target.page.page_no) {
            Ok(bytes) => bytes,
            Err(error) => {
                coverage.skip_once(crate::analysis::skipped::SkippedPart::file(space.name()), error);
                None
            }
        });
        let chosen: Option<SlotId> = page.as_ref().and_then(|page| page.taken);
        let mut slots: Vec<&SlotFacts> = content.slots_of(target.page).collect();
        let all = slots.len();
        slots.sort_by_key(|facts| (chosen != Some(facts.slot), std::cmp::Reverse(facts.lsn)));
        slots.truncate(MAX_IMAGES);
        let length = disk.as_ref().map(Vec::len);
        let letter_of = |at: usize, slot: SlotId| match &page {
            Some(page) => page.candidates.iter().position(|one| one.facts.slot == slot).map_or('?', letter),
            None => letter(at),
        };
        let image = |(at, facts): (usize, &&SlotFacts)| {
            let file = source.doublewrite.files.get(facts.slot.0)?;
            let mut buf = Vec::new();
            let bytes = file.slot(facts.slot.1, &mut buf).ok().flatten()?;
            let bytes = bytes.get(..length.unwrap_or(facts.length)).unwrap_or(bytes).to_vec();
            let state = if facts.state.is_sound() { "" } else { ", damaged" };
            let title = format!("{} at {}{state}", slot_name(Some(&file.name), facts.slot), facts.lsn);
            Some(SheetImage { letter: letter_of(at, facts.slot), title, bytes, is_chosen: chosen == Some(facts.slot) })
        };
        let images: Vec<SheetImage> = slots.iter().enumerate().filter_map(image).collect();
        InnodbPageSheet {
            survey: Arc::clone(survey),
            target,
            space: survey_space(survey, target, page.as_ref().map(|page| page.path.clone())),
            further_images: all - images.len(),
            is_full_crc32: space.is_some_and(|space| space.flags.is_full_crc32),
            skipped: coverage.skipped.iter().map(|skipped| format!("not examined: {skipped}")).collect(),
            page,
            disk,
            images,
        }
    }
}

fn survey_space(survey: &InnodbSurvey, target: PageTarget, path: Option<String>) -> String {
    path.unwrap_or_else(|| survey.space_name(Some(target.page.space_id)))
}

impl Backend<Action, Effect> for InnodbBackend {
    fn work(&self, effect: Effect, sender: &ActionSender<Action>) {
        match effect {
            Effect::Survey => {
                let survey = match self.survey(sender) {
                    Ok(survey) => survey,
                    Err(error) => return sender.action(Action::SurveyFailed(error.to_string())),
                };
                sender.action(Action::Surveyed(Arc::clone(&survey)));
                if let Some(sheet) = self.compare(&survey, sender) {
                    sender.action(Action::Compared(Arc::new(sheet)));
                }
            }
            Effect::ReadPage(target) => {
                let survey = lock(&self.survey).clone();
                let read = survey.ok_or(WorkError::NotReadYet).map(|survey| self.page(&survey, target));
                hand_over(sender, Action::Failed, read.map(|sheet| Action::PageRead(Arc::new(sheet))));
            }
            Effect::Export { name, text, json } => {
                let protected = self.request.protected();
                let written = protected.and_then(|protected| export(&name, &text, &json, &protected));
                hand_over(sender, Action::Failed, written.map(Action::Exported));
            }
            Effect::Report => hand_over(sender, Action::Failed, self.report().map(Action::Exported)),
            Effect::Quit | Effect::Fail(_) | Effect::Suspend | Effect::Redraw | Effect::Copy(_) => {}
        }
    }

    fn has_changed(&self) -> bool {
        lock(&self.stamps).have_changed()
    }

    fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}
