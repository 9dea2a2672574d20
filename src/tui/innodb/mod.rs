//! The screen for MySQL and MariaDB: its own state, actions, keys and views over the widgets, the loop and the workers that all
//! screens share. It shows and exports; it repairs nothing.

pub mod action;
pub mod export;
pub mod facts;
pub mod keymap;
mod model;
pub mod picker;
pub mod state;
pub mod triage_rows;
pub mod update;
pub mod view;
mod view_page;
mod view_triage;
