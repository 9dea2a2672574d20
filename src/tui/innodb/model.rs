//! This screen, as the loop drives it.

use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;

use super::action::{InnodbAction as Action, InnodbEffect as Effect};
use super::keymap::action_of;
use super::state::InnodbState;
use super::update::{begin, update};
use super::view::view;
use crate::tui::run::{Happened, Model, Outside};

impl Model for InnodbState {
    type Action = Action;
    type Effect = Effect;

    fn begin(&mut self) -> Vec<Effect> {
        begin(self)
    }

    fn update(&mut self, action: Action) -> Vec<Effect> {
        update(self, action)
    }

    fn action_of(&self, key: KeyEvent) -> Option<Action> {
        action_of(key, self)
    }

    fn happened(what: Happened) -> Action {
        match what {
            Happened::Resized(columns, rows) => Action::Resize(columns, rows),
            Happened::Clicked(column, row) => Action::Click(column, row),
            Happened::Scrolled(lines) => Action::Scroll(lines),
            Happened::Ticked => Action::Tick,
            Happened::FilesChanged => Action::FilesChanged,
            Happened::Terminated => Action::Terminate,
        }
    }

    fn is_typing(&self) -> bool {
        self.prompt.is_some()
    }

    fn size(&self) -> (u16, u16) {
        self.size
    }

    fn outside(effect: Effect) -> Outside<Effect> {
        match effect {
            Effect::Quit => Outside::Quit,
            Effect::Fail(why) => Outside::Fail(why),
            Effect::Suspend => Outside::Suspend,
            Effect::Redraw => Outside::Redraw,
            Effect::Copy(text) => Outside::Copy(text),
            work => Outside::Work(work),
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        view(self, frame);
    }
}
