//! What each key of the table does.

use super::lists::{find, order_slots, reverse_slots};
use super::navigate::{back, move_by, open, show, sideways, step_part, step_view};
use super::{begin, repair};
use crate::tui::action::{Command, Effect};
use crate::tui::command_line::command_line;
use crate::tui::export::json_text;
use crate::tui::state::{PagePart, Prompt, PromptKind, State};
use crate::tui::view;

pub(super) fn carry_out(state: &mut State, command: Command) -> Vec<Effect> {
    match command {
        Command::Quit if state.plan.is_applying => {
            state.warn("a repair is in progress: wait until it has ended");
        }
        Command::Quit => return vec![Effect::Quit],
        Command::Help => {
            state.help.is_open = !state.help.is_open;
            state.help.top = 0;
        }
        Command::Back => back(state),
        Command::NextView => return step_view(state, 1),
        Command::PreviousView => return step_view(state, -1),
        Command::Show(view) => return show(state, view),
        Command::Up => move_by(state, -1),
        Command::Down => move_by(state, 1),
        Command::PageUp => move_by(state, -(state.body_rows() as isize)),
        Command::PageDown => move_by(state, state.body_rows() as isize),
        Command::First => move_by(state, isize::MIN),
        Command::Last => move_by(state, isize::MAX),
        Command::Left => sideways(state, -1),
        Command::Right => sideways(state, 1),
        Command::NextPart => step_part(state, 1),
        Command::PreviousPart => step_part(state, PagePart::ALL.len() - 1),
        Command::NextImage => {
            let images = state.page.sheet.as_ref().map_or(0, |sheet| sheet.versions.len().saturating_sub(1));
            state.page.image = if images == 0 { 0 } else { (state.page.image + 1) % images };
        }
        Command::Open => return open(state),
        Command::Search => state.prompt = Some(Prompt { kind: PromptKind::Search, text: String::new() }),
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
        Command::Sort => {
            state.slots.column = state.slots.column.next();
            order_slots(state);
        }
        Command::Reverse => reverse_slots(state),
        Command::Mark => repair::mark(state),
        Command::Copy => {
            let text = command_line(state);
            state.tell(format!("copied: {text}"));
            return vec![Effect::Copy(text)];
        }
        Command::Export => {
            let name = format!("{}_{}", state.subject.program, state.view.name().to_lowercase());
            return vec![Effect::Export { name, text: view::whole_text(state), json: json_text(state) }];
        }
        Command::Save => return repair::save(state),
        Command::DryRun => return repair::rehearse(state),
        Command::Apply => repair::ask_for_word(state),
        Command::Reload if state.cluster.is_reading || state.plan.is_applying => {
            state.warn("the cluster is being read or repaired: wait until that has ended");
        }
        Command::Reload => {
            state.tell("reading again");
            return begin(state);
        }
        Command::Suspend => return vec![Effect::Suspend],
        Command::Redraw => return vec![Effect::Redraw],
    }
    Vec::new()
}
