//! Changes of the state. Nothing is read or written here: work is asked for by returning effects.

use std::path::Path;

use super::action::{InnodbAction as Action, InnodbCommand as Command, InnodbEffect as Effect};
use super::export::{command_line, json_text, whole_text};
use super::facts::PageTarget;
use super::keymap::idle_words;
use super::picker::{self, Kept, keep};
use super::state::{InnodbPart, InnodbPromptKind as PromptKind, InnodbState as State, InnodbView as View, SlotColumn};
use super::triage_rows::Row;
use super::view;
use super::view_page::sides;
use crate::parsers::innodb::InnodbPageId;
use crate::tui::byte_list::ByteSides;
use crate::tui::list_moves::moved;
use crate::tui::picker::Choice;

/// What a program has to do first.
pub fn begin(state: &mut State) -> Vec<Effect> {
    state.is_reading = true;
    vec![Effect::Survey]
}

/// Changes the state; returns what is to be done outside.
pub fn update(state: &mut State, action: Action) -> Vec<Effect> {
    match action {
        Action::Idle(key) => state.tell(idle_words(key, state.view)),
        Action::Do(command) => {
            state.message = None;
            return press(state, command);
        }
        Action::Type(c) => {
            if let Some((_, text)) = &mut state.prompt {
                text.push(c);
            }
            typed(state);
        }
        Action::Erase => {
            let is_gone = state.prompt.as_mut().is_some_and(|(_, text)| text.pop().is_none());
            typed(state);
            if is_gone {
                state.prompt = None;
            }
        }
        Action::Enter => return enter(state),
        Action::Click(column, row) => return click(state, column, row),
        Action::Scroll(lines) => move_by(state, lines),
        Action::Resize(columns, rows) => {
            state.size = (columns, rows);
            view::break_texts(state);
        }
        Action::Progressed(progress) => state.progress = Some(progress),
        Action::Found(found) => {
            // Those of a directory that was read before stay as they are shown.
            if state.survey.is_none() {
                state.triage.pending.extend(found.iter().cloned());
                list_triage(state);
            }
        }
        Action::Surveyed(survey) => {
            (state.progress, state.is_reading, state.has_changed, state.failed) = (None, false, false, None);
            (state.survey, state.compared, state.slots.batch) = (Some(survey), None, None);
            state.triage.pending.clear();
            list_all(state);
            view::break_texts(state);
            return page_again(state);
        }
        Action::SurveyFailed(why) => {
            (state.progress, state.is_reading) = (None, false);
            if state.survey.is_none() {
                return vec![Effect::Fail(why)];
            }
            (state.failed, state.message) = (Some(why), None);
            return page_again(state);
        }
        Action::Compared(sheet) => {
            if state.is_of_survey(&sheet.survey) {
                if !state.is_reading {
                    state.progress = None;
                }
                state.compared = Some(sheet);
                list_slots(state);
            }
        }
        Action::PageRead(sheet) => {
            // What was read while the check is done again is of neither check: it is read once more after that.
            let is_of_now = state.is_of_survey(&sheet.survey) && !state.is_reading;
            if state.page.wanted == Some(sheet.target) && is_of_now {
                let chosen = sheet.images.iter().position(|image| image.is_chosen);
                state.page.image = chosen.unwrap_or(0);
                state.page.sheet = Some(sheet);
                view::break_texts(state);
            }
        }
        Action::Exported(path) => state.tell(written(&path)),
        Action::Failed(words) => state.warn(words),
        Action::FilesChanged => state.has_changed = !state.is_reading,
        Action::Terminate => return vec![Effect::Quit],
        Action::Tick => {}
    }
    Vec::new()
}

/// Files are written into the current directory: their name is told, which has room everywhere.
fn written(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    format!("written: {}, .json", name.to_string_lossy())
}

/// Reads the wanted page again; what was listed before may have another index now.
fn page_again(state: &mut State) -> Vec<Effect> {
    let (Some(target), Some(survey)) = (state.page.wanted, &state.survey) else { return Vec::new() };
    let target = survey.target(target.page);
    (state.page.wanted, state.page.sheet) = (Some(target), None);
    vec![Effect::ReadPage(target)]
}

fn press(state: &mut State, command: Command) -> Vec<Effect> {
    if state.help.is_some() && matches!(command, Command::Quit | Command::Help | Command::Back) {
        state.help = None;
        return Vec::new();
    }
    match command {
        Command::Quit => return vec![Effect::Quit],
        Command::Suspend => return vec![Effect::Suspend],
        Command::Redraw => return vec![Effect::Redraw],
        Command::Copy => {
            let command = command_line(state);
            let is_filtered = !state.filter().is_empty() || (state.view == View::Slots && state.slots.batch.is_some());
            let note = if is_filtered { " (of all lines, not only of those that are listed)" } else { "" };
            state.tell(format!("copied{note}: {command}"));
            return vec![Effect::Copy(command)];
        }
        Command::Export if state.survey.is_none() => {
            state.warn("the directory is still being read: press e again after that");
        }
        Command::Export => {
            let name = format!("innodb_{}", state.view.name().to_lowercase());
            return vec![Effect::Export { name, text: whole_text(state), json: json_text(state) }];
        }
        Command::Report if state.survey.is_none() => {
            state.warn("the directory is still being read: press R again after that");
        }
        Command::Report => match state.outdated() {
            Some(why) => state.warn(format!("no report of what may not be so any more: {why}")),
            None => return vec![Effect::Report],
        },
        Command::Reload if state.is_reading => state.tell("it is being read already"),
        Command::Reload => {
            (state.is_reading, state.has_changed, state.failed) = (true, false, None);
            state.page.sheet = None;
            return vec![Effect::Survey];
        }
        Command::Help => state.help = Some(0),
        Command::Back => back(state),
        Command::NextView => return show(state, step_view(state.view, 1)),
        Command::PreviousView => return show(state, step_view(state.view, View::ALL.len() - 1)),
        Command::Show(view) => return show(state, view),
        Command::Up => move_by(state, -1),
        Command::Down => move_by(state, 1),
        Command::PageUp => move_by(state, -screen(state)),
        Command::PageDown => move_by(state, screen(state)),
        Command::First => move_by(state, isize::MIN),
        Command::Last => move_by(state, isize::MAX),
        Command::Left => sideways(state, false),
        Command::Right => sideways(state, true),
        Command::NextPart => turn_part(state, 1),
        Command::PreviousPart => turn_part(state, InnodbPart::ALL.len() - 1),
        Command::Open => return open(state),
        Command::NextImage => next_image(state),
        Command::NextDifference => to_difference(state, true),
        Command::PreviousDifference => to_difference(state, false),
        Command::NextDamaged => return to_damaged(state, true),
        Command::PreviousDamaged => return to_damaged(state, false),
        Command::Fold if state.page.part == InnodbPart::Bytes => state.page.is_unfolded = !state.page.is_unfolded,
        Command::Fold => state.tell("z folds equal bytes: p leads there"),
        Command::Filter => state.prompt = Some((PromptKind::Filter, state.filter().to_owned())),
        Command::GoTo => state.prompt = Some((PromptKind::GoTo, String::new())),
        Command::Sort => sort(state),
        Command::Reverse => {
            match state.view {
                View::Slots => state.slots.is_reversed = !state.slots.is_reversed,
                _ => state.triage.is_reversed = !state.triage.is_reversed,
            }
            list_open(state);
        }
        Command::Palette => (state.picked, state.prompt) = (0, Some((PromptKind::Palette, String::new()))),
        Command::Bookmarks => (state.picked, state.prompt) = (0, Some((PromptKind::Bookmarks, String::new()))),
        Command::Bookmark => keep(state),
        Command::Repair => state.tell("this engine's pages are not repaired here: Triage says what to do"),
    }
    Vec::new()
}

fn step_view(view: View, by: usize) -> View {
    let at = View::ALL.iter().position(|one| *one == view.tab()).unwrap_or(0);
    View::ALL[(at + by) % View::ALL.len()]
}

/// Opens a view; the page view shows the selected page.
fn show(state: &mut State, view: View) -> Vec<Effect> {
    state.help = None;
    let target = state.selected_page();
    if view == View::Page && state.view != View::Page {
        let first = || {
            let page = state.survey.as_deref()?.examined.pages.first()?.page;
            Some(PageTarget { page, listed: Some(0) })
        };
        if let Some(target) = target.or(state.page.wanted).or_else(first) {
            return open_page(state, target);
        }
    }
    state.trail.clear();
    state.view = view;
    if view == View::Findings {
        state.trail.push(View::Triage);
    }
    Vec::new()
}

fn open_page(state: &mut State, target: PageTarget) -> Vec<Effect> {
    if state.view != View::Page {
        state.trail.push(state.view);
    }
    state.view = View::Page;
    if state.page.wanted == Some(target) && state.page.sheet.is_some() {
        return Vec::new();
    }
    state.page.wanted = Some(target);
    state.page.sheet = None;
    (state.page.cursor, state.page.top, state.page.image) = (0, 0, 0);
    state.page.text.clear();
    vec![Effect::ReadPage(target)]
}

fn back(state: &mut State) {
    if let Some((kind, _)) = state.prompt.take() {
        if kind == PromptKind::Filter {
            set_filter(state, "");
        }
        return;
    }
    if !state.filter().is_empty() {
        set_filter(state, "");
    } else if state.view == View::Slots && state.slots.batch.take().is_some() {
        list_slots(state);
        state.view = View::Batches;
        state.trail.clear();
    } else if let Some(view) = state.trail.pop() {
        state.view = view;
    } else {
        state.tell("there is nothing to go back to: q leaves");
    }
}

/// Lines of a screen.
fn screen(state: &State) -> isize {
    isize::try_from(state.body_rows().saturating_sub(4).max(1)).unwrap_or(1)
}

fn move_by(state: &mut State, by: isize) {
    if let Some(items) = picker::items(state) {
        state.picked = moved(state.picked, by, items.len());
        return;
    }
    if let Some(top) = state.help {
        state.help = Some(moved(top, by, view::scroll_range(state)));
        return;
    }
    let range = view::scroll_range(state);
    let (at, count) = match state.view {
        View::Triage => (&mut state.triage.selected, state.triage.rows.rows.len()),
        View::Batches => (&mut state.batches.selected, state.batches.order.len()),
        View::Slots => (&mut state.slots.selected, state.slots.order.len()),
        View::Page if state.page.part == InnodbPart::Bytes => {
            return move_cursor(state, |bytes| bytes.lines_further(by));
        }
        View::Page => (&mut state.page.top, range),
        View::Findings => (&mut state.findings_top, range),
    };
    let before = *at;
    *at = moved(before, by, count);
    if *at == before && by.unsigned_abs() == 1 {
        let which = if by < 0 { "first" } else { "last" };
        state.tell(format!("this is the {which} line"));
    }
}

/// The cursor goes where `to` says among the bytes of the page.
fn move_cursor(state: &mut State, to: impl Fn(ByteSides<'_>) -> usize) {
    if let Some(sheet) = state.page.sheet.clone() {
        state.page.cursor = to(sides(state, &sheet));
    }
}

fn sideways(state: &mut State, is_right: bool) {
    match state.view {
        View::Triage => {
            let Some(group) = state.triage.rows.group_at(state.triage.selected) else {
                return state.tell("pages are listed one by one: s gathers them");
            };
            if state.triage.rows.is_open(group) == is_right {
                let words = if is_right { "its pages are shown" } else { "its pages are not shown" };
                return state.tell(words);
            }
            set_open(state, group, is_right);
        }
        _ if state.page.part == InnodbPart::Bytes => {
            move_cursor(state, |bytes| bytes.bytes_further(if is_right { 1 } else { -1 }));
        }
        _ => state.tell("this part has no columns: p leads to the bytes"),
    }
}

fn set_open(state: &mut State, group: usize, is_open: bool) {
    state.triage.rows.set_open(group, is_open);
    list_triage(state);
    state.triage.selected = state.triage.rows.row_of(Row::Group(group)).unwrap_or(0);
}

fn turn_part(state: &mut State, by: usize) {
    let at = InnodbPart::ALL.iter().position(|one| *one == state.page.part).unwrap_or(0);
    state.page.part = InnodbPart::ALL[(at + by) % InnodbPart::ALL.len()];
    state.page.top = 0;
}

fn next_image(state: &mut State) {
    let count = state.page.sheet.as_ref().map_or(0, |sheet| sheet.images.len());
    match count {
        0 => state.tell("no image of the page is there"),
        1 => state.tell("there is one image of the page"),
        _ => state.page.image = (state.page.image + 1) % count,
    }
}

/// To the first byte of the next stretch that differs, or of the one before.
fn to_difference(state: &mut State, is_next: bool) {
    let Some(sheet) = state.page.sheet.clone() else { return };
    let bytes = sides(state, &sheet);
    if bytes.right.is_none() {
        return state.tell("there is nothing to compare with");
    }
    state.page.part = InnodbPart::Bytes;
    match bytes.difference(is_next) {
        Some(at) => state.page.cursor = at,
        None => state.tell("disk and image have the same bytes"),
    }
}

fn to_damaged(state: &mut State, is_next: bool) -> Vec<Effect> {
    let Some(survey) = state.survey.clone() else { return Vec::new() };
    let pages = &survey.examined.pages;
    if pages.is_empty() {
        state.tell("no page is damaged");
        return Vec::new();
    }
    if state.view == View::Triage {
        move_by(state, if is_next { 1 } else { -1 });
        return Vec::new();
    }
    let at = state.page.wanted.and_then(|target| target.listed);
    let next = match (at, is_next) {
        (None, _) => 0,
        (Some(at), true) => (at + 1) % pages.len(),
        (Some(at), false) => (at + pages.len() - 1) % pages.len(),
    };
    open_page(state, PageTarget { page: pages[next].page, listed: Some(next) })
}

fn open(state: &mut State) -> Vec<Effect> {
    let target = state.selected_page();
    match state.view {
        View::Triage if state.survey.is_none() && state.triage.rows.page_at(state.triage.selected).is_some() => {
            state.tell("this page is not judged yet: the check goes on");
        }
        View::Triage if target.is_none() => {
            if let Some(group) = state.triage.rows.group_at(state.triage.selected) {
                set_open(state, group, !state.triage.rows.is_open(group));
            }
        }
        View::Batches => {
            if let Some(batch) = state.batches.order.get(state.batches.selected).copied() {
                state.slots.batch = Some(batch);
                state.slots.filter.clear();
                list_slots(state);
                state.slots.selected = 0;
                state.view = View::Slots;
            }
        }
        _ => match target {
            Some(target) => return open_page(state, target),
            None => state.tell("which page it is of is unknown"),
        },
    }
    Vec::new()
}

fn sort(state: &mut State) {
    match state.view {
        View::Slots => {
            state.slots.column = state.slots.column.next();
            if state.slots.column == SlotColumn::Disk && state.compared.is_none() {
                state.tell("slots are still being compared with pages");
            }
            list_slots(state);
        }
        _ => {
            state.triage.grouping = state.triage.grouping.next();
            state.triage.selected = 0;
            list_triage(state);
        }
    }
}

fn typed(state: &mut State) {
    state.picked = 0;
    if let Some((PromptKind::Filter, text)) = state.prompt.clone() {
        set_filter(state, &text);
    }
}

fn set_filter(state: &mut State, text: &str) {
    match state.view {
        View::Triage => state.triage.filter = text.to_owned(),
        View::Batches => state.batches.filter = text.to_owned(),
        View::Slots => state.slots.filter = text.to_owned(),
        View::Page | View::Findings => return,
    }
    list_open(state);
}

fn enter(state: &mut State) -> Vec<Effect> {
    match state.prompt.take() {
        Some((PromptKind::GoTo, text)) => go_to(state, text.trim()),
        prompt @ Some((PromptKind::Palette | PromptKind::Bookmarks, _)) => {
            state.prompt = prompt;
            let picked = picker::items(state).and_then(|items| items.into_iter().nth(state.picked));
            state.prompt = None;
            match picked.map(|item| item.choice) {
                Some(Choice::Command(command)) => press(state, command),
                Some(Choice::Bookmark(at)) => go_to_bookmark(state, at),
                None => Vec::new(),
            }
        }
        Some((PromptKind::Filter, _)) | None => {
            if let Some((0, _)) = state.counts().filter(|_| !state.filter().is_empty()) {
                state.warn("nothing matches: esc shows all");
            }
            Vec::new()
        }
    }
}

/// Goes to what was kept.
fn go_to_bookmark(state: &mut State, at: usize) -> Vec<Effect> {
    let (Some(bookmark), Some(survey)) = (state.bookmarks.get(at).cloned(), state.survey.clone()) else {
        return Vec::new();
    };
    match bookmark.kept {
        Kept::Page(page) => return open_page(state, survey.target(page)),
        Kept::Slot(name) => {
            state.slots.batch = None;
            state.slots.filter.clear();
            list_slots(state);
            let is_called = |at: &usize| survey.slot_line(*at).is_some_and(|line| survey.slot_name(line) == name);
            match state.slots.order.iter().position(is_called) {
                Some(row) => (state.view, state.slots.selected) = (View::Slots, row),
                None => state.warn(format!("slot {name} is not there any more")),
            }
        }
        Kept::View => return show(state, bookmark.view),
    }
    Vec::new()
}

/// `slot 3`, or `TABLESPACE:PAGE`.
fn go_to(state: &mut State, text: &str) -> Vec<Effect> {
    let Some(survey) = state.survey.clone() else {
        state.tell("the directory is still being read");
        return Vec::new();
    };
    if let Some(name) = text.strip_prefix("slot ").map(str::trim) {
        let ending = format!(":{name}");
        let is_called = |line| {
            let called = survey.slot_name(line);
            called == name || called.ends_with(&ending)
        };
        match state.slots.order.iter().position(|at| survey.slot_line(*at).is_some_and(is_called)) {
            Some(row) => (state.view, state.slots.selected) = (View::Slots, row),
            None => state.warn(format!("no slot {name} is listed")),
        }
        return Vec::new();
    }
    let parts = text.rsplit_once(':').map(|(space, page)| (space, page.trim().parse().ok()));
    let Some((space, Some(page_no))) = parts else {
        state.warn("not understood: shop/orders:7, 12:7 or slot 3");
        return Vec::new();
    };
    let source = &survey.examined.source;
    let found = source.space_named(space).and_then(|index| source.spaces.all.get(index));
    let Some(id) = found.map(|space| space.id) else {
        state.warn(format!("no tablespace is called {space}"));
        return Vec::new();
    };
    let page = InnodbPageId { space_id: id, page_no };
    open_page(state, survey.target(page))
}

fn click(state: &mut State, column: u16, row: u16) -> Vec<Effect> {
    if row == 0 {
        return view::tab_at(column).map_or_else(Vec::new, |view| show(state, view));
    }
    let Some(line) = view::line_at(state, row) else { return Vec::new() };
    let at = match state.view {
        View::Triage => &mut state.triage.selected,
        View::Batches => &mut state.batches.selected,
        View::Slots => &mut state.slots.selected,
        View::Page | View::Findings => return Vec::new(),
    };
    if std::mem::replace(at, line) == line { open(state) } else { Vec::new() }
}

fn list_all(state: &mut State) {
    list_triage(state);
    list_batches(state);
    list_slots(state);
}

fn list_open(state: &mut State) {
    match state.view {
        View::Triage => list_triage(state),
        View::Batches => list_batches(state),
        View::Slots => list_slots(state),
        View::Page | View::Findings => {}
    }
}

fn list_triage(state: &mut State) {
    let triage = &mut state.triage;
    let (grouping, is_reversed) = (triage.grouping, triage.is_reversed);
    match &state.survey {
        Some(survey) => triage.rows.list(survey, grouping, is_reversed, &triage.filter),
        None => triage.rows.list_pending(&triage.pending, grouping, is_reversed, &triage.filter),
    }
    triage.selected = triage.selected.min(triage.rows.rows.len().saturating_sub(1));
}

fn list_batches(state: &mut State) {
    let Some(survey) = state.survey.clone() else { return };
    let words: Vec<String> = state.batches.filter.split_whitespace().map(str::to_lowercase).collect();
    let fits = |batch: usize| {
        let text = view::batch_words(&survey, batch).join(" ").to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    state.batches.order = (0..survey.batches.len()).filter(|batch| fits(*batch)).collect();
    state.batches.selected = state.batches.selected.min(state.batches.order.len().saturating_sub(1));
}

fn list_slots(state: &mut State) {
    let Some(survey) = state.survey.clone() else { return };
    let compared = state.compared.clone();
    let texts = compared.as_ref().map_or(&survey.slot_texts, |sheet| &sheet.texts);
    let slots = &mut state.slots;
    let words: Vec<String> = slots.filter.split_whitespace().map(str::to_lowercase).collect();
    let batch = slots.batch.and_then(|batch| survey.batches.get(batch));
    let fits = |at: usize| {
        let of_batch = batch.is_none_or(|batch| survey.slot_line(at).is_some_and(|line| survey.is_of(line, batch)));
        of_batch && texts.get(at).is_none_or(|text| words.iter().all(|word| text.contains(word.as_str())))
    };
    let selected = slots.order.get(slots.selected).copied();
    let mut order: Vec<usize> = (0..survey.slot_lines()).filter(|at| fits(*at)).collect();
    let disk = |at: usize| compared.as_ref().and_then(|sheet| Some(sheet.words.get(at)?.0));
    match slots.column {
        SlotColumn::Slot => {}
        SlotColumn::Page => order.sort_by_key(|at| survey.slot_line(*at).and_then(|line| line.page())),
        SlotColumn::Lsn => order.sort_by_key(|at| survey.slot_line(*at).map(|line| line.lsn())),
        SlotColumn::Disk => order.sort_by_key(|at| disk(*at)),
    }
    if slots.is_reversed {
        order.reverse();
    }
    slots.selected = selected.and_then(|line| order.iter().position(|at| *at == line)).unwrap_or(0);
    slots.order = order;
}
