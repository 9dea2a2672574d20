//! Commands of the keys.

use std::time::Instant;

use super::lists::{find, order_slots, reverse_slots};
use super::navigate::{back, clamp, move_by, open, open_page, show, sideways, step_part, step_view};
use super::{Effect, Prompt, PromptKind, State, View, before, begin, goto, page, pages, repair, ring, triage, wal};
use crate::tui::action::Command;
use crate::tui::checklist;
use crate::tui::command_line::{NO_COMMAND, command_line, differs};
use crate::tui::export::{json_text, whole_text};
use crate::tui::state::{Column, HelpState, Scale, stepped};
use crate::tui::view;

/// Does what a key stands for. One that changes nothing on the screen says why.
pub(super) fn press(state: &mut State, command: Command) -> Vec<Effect> {
    state.message = None;
    if ring::stop(state) {
        return Vec::new();
    }
    let before = view::picture(state);
    let effects = carry_out(state, command);
    if command != Command::Quit {
        state.is_leaving = false;
    }
    if effects.is_empty() && state.message.is_none() && view::picture(state) == before {
        state.tell(unchanged(state, command));
    }
    effects
}

fn unchanged(state: &State, command: Command) -> String {
    let is_read = state.view == View::Wal || state.has_survey();
    match command {
        Command::Back => "nothing to close (q quits)".to_owned(),
        Command::Show(view) => format!("{} is open", view.name()),
        _ if !is_read => "nothing to show yet: the cluster is being read".to_owned(),
        Command::Up | Command::PageUp | Command::HalfUp | Command::First | Command::Top => {
            "this is the first line".to_owned()
        }
        Command::RowUp => "this is the first row".to_owned(),
        Command::RowDown => "this is the last row".to_owned(),
        Command::Down | Command::PageDown | Command::HalfDown | Command::Last | Command::Bottom => {
            "this is the last line".to_owned()
        }
        Command::Left => "nothing is further left".to_owned(),
        Command::Right => "nothing is further right".to_owned(),
        Command::NextImage => "there is no other image".to_owned(),
        _ => "nothing to do here".to_owned(),
    }
}

pub(super) fn carry_out(state: &mut State, command: Command) -> Vec<Effect> {
    match command {
        Command::Quit if state.plan.is_applying => {
            state.warn("a repair is in progress: wait until it has ended");
        }
        Command::Quit if state.help.is_open => state.help.is_open = false,
        Command::Quit if !state.plan.marks.is_empty() && !state.plan.is_saved && !state.is_leaving => {
            state.is_leaving = true;
            let marked = pages(state.plan.marks.len());
            state.warn(format!("{marked} marked: w in Plan saves the plan; q or y leaves without it"));
        }
        Command::Quit => return vec![Effect::Quit],
        Command::Copy if state.is_leaving => return vec![Effect::Quit],
        Command::Help => {
            state.help = HelpState { is_open: !state.help.is_open, ..HelpState::default() };
        }
        Command::Back => back(state),
        Command::NextView => return step_view(state, 1),
        Command::PreviousView => return step_view(state, -1),
        Command::Show(view) => {
            state.trail.clear();
            return show(state, view);
        }
        Command::Up => move_by(state, -1),
        Command::Down => move_by(state, 1),
        Command::PageUp => move_by(state, -(state.body_rows() as isize)),
        Command::PageDown => move_by(state, state.body_rows() as isize),
        Command::HalfUp => move_by(state, -((state.body_rows() / 2) as isize)),
        Command::HalfDown => move_by(state, (state.body_rows() / 2) as isize),
        Command::Top | Command::Bottom => {
            if let Some((up, down)) = view::lines_around(state) {
                move_by(state, if command == Command::Top { -up } else { down });
            }
        }
        Command::LastPage | Command::PageAfter => {
            let is_back = command == Command::LastPage;
            let mut lists = (std::mem::take(&mut state.visited), std::mem::take(&mut state.ahead));
            let (from, to) = if is_back { (&mut lists.0, &mut lists.1) } else { (&mut lists.1, &mut lists.0) };
            let page = from.pop();
            to.extend(page.and(state.page.wanted));
            let effects = page.map_or_else(Vec::new, |page| open_page(state, page));
            (state.visited, state.ahead) = lists;
            if page.is_none() {
                state.tell(if is_back { "no other page was open before" } else { "ctrl-o was not pressed before" });
            }
            return effects;
        }
        Command::First => move_by(state, isize::MIN),
        Command::Last => move_by(state, isize::MAX),
        Command::Guide => {
            state.is_guided = !state.is_guided;
            clamp(state);
        }
        Command::OpenGroup => triage::unfold(state),
        Command::CloseGroup => triage::fold(state),
        Command::Left => sideways(state, -1),
        Command::Right => sideways(state, 1),
        Command::NextPart => step_part(state, 1),
        Command::PreviousPart => step_part(state, -1),
        Command::NextImage => page::next_image(state),
        Command::NextDifference => page::find_difference(state, true),
        Command::PreviousDifference => page::find_difference(state, false),
        Command::NextDamaged => return page::step_damaged(state, true),
        Command::PreviousDamaged => return page::step_damaged(state, false),
        Command::Fold => page::fold(state),
        Command::Open => return open(state),
        Command::Search => {
            // A filter is gone on with where it was left.
            let text = match state.list_kind() {
                _ if state.help.is_open => state.help.filter.clone(),
                Some(kind) => state.list_filter.text(kind).to_owned(),
                None if state.view == View::Triage => state.query.text().to_owned(),
                None if matches!(state.view, View::Page | View::Wal) => {
                    return state.only_warn("this is not a list: there is nothing to filter");
                }
                None => String::new(),
            };
            state.prompt = Some(Prompt { kind: PromptKind::Search, text });
        }
        Command::NextMatch if state.view == View::InnodbPage => return page::step_damaged(state, true),
        Command::NextMatch => find(state, true, false),
        Command::PreviousMatch => find(state, false, false),
        Command::OnlyMatches => {
            if state.query.is_empty() && !state.slots.only {
                state.warn("search first: press / and type what to find");
            } else {
                state.slots.only = !state.slots.only;
                order_slots(state);
            }
        }
        Command::Sort if state.view == View::Triage => triage::sort(state),
        Command::Reverse if state.view == View::Triage => triage::reverse(state),
        Command::Sort => {
            state.slots.column = stepped(&Column::ALL, state.slots.column, 1);
            order_slots(state);
        }
        Command::Reverse => reverse_slots(state),
        Command::Mark => repair::mark(state),
        Command::Tick => checklist::tick(state),
        Command::Copy => {
            if let Some(lines) = view::row_text(state) {
                state.tell(format!(
                    "sent to the clipboard of the terminal: {}",
                    lines.first().map_or("", String::as_str)
                ));
                return vec![Effect::Copy(lines.join("\n"))];
            }
            let text = command_line(state);
            match differs(state) {
                Some(why) if why.starts_with(NO_COMMAND) => state.warn(why),
                other => {
                    let note = other.map_or_else(String::new, |why| format!(" ({why})"));
                    state.tell(format!("sent to the clipboard of the terminal{note}: {text}"));
                    return vec![Effect::Copy(text)];
                }
            }
        }
        Command::Export => {
            let name = format!("{}_{}", state.subject.program, state.view.name().to_lowercase());
            return vec![Effect::Export { name, text: whole_text(state), json: json_text(state) }];
        }
        Command::Save => return repair::save(state),
        Command::DryRun if state.view == View::Undo => return repair::open_undo(state),
        Command::DryRun => return before::rehearse(state),
        Command::Undo if state.view == View::Undo => repair::ask_for_undo(state),
        Command::Undo => return repair::open_undo(state),
        Command::Apply if state.view == View::Apply => before::ask_for_word(state),
        Command::Apply => return before::open(state),
        Command::ChooseJournal => before::ask_for_journal(state),
        Command::Allow => before::ask_for_flag(state),
        Command::Reload if state.cluster.is_reading || state.plan.is_applying => {
            state.warn("the cluster is being read or repaired: wait until that has ended");
        }
        Command::Reload => {
            state.tell("reading again");
            return begin(state);
        }
        Command::GoTo => {
            state.asked_at = Some(Instant::now());
            state.prompt = Some(Prompt { kind: PromptKind::GoTo, text: String::new() });
        }
        Command::Palette | Command::Bookmarks => {
            let kind = if command == Command::Palette { PromptKind::Palette } else { PromptKind::Bookmarks };
            state.picked = 0;
            state.prompt = Some(Prompt { kind, text: String::new() });
        }
        Command::Bookmark => goto::bookmark(state),
        Command::RowUp => ring::move_rows(state, -1),
        Command::RowDown => ring::move_rows(state, 1),
        Command::Play => return ring::play(state),
        Command::Suspend => return vec![Effect::Suspend],
        Command::Redraw => return vec![Effect::Redraw],
        Command::Report if !state.has_survey() => state.warn("files are still being read: press R again after that"),
        Command::Report => {
            state.tell("the crash report is being written");
            return vec![Effect::Report(state.pressed.clone())];
        }
        Command::Wider => wal::resize_window(state, true),
        Command::Narrower => wal::resize_window(state, false),
        Command::WholeWindow => wal::whole_window(state),
        Command::Zoom => wal::zoom(state),
        Command::Axis => wal::switch_axis(state),
        Command::Follow => return wal::follow(state),
        Command::Scale => state.wal.scale = stepped(&Scale::ALL, state.wal.scale, 1),
    }
    Vec::new()
}
