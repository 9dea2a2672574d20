//! The screen: keys become actions, [`update::update`] changes the state and asks for work, [`view::view`] draws.
//!
//! All judgement happens elsewhere and comes from workers as finished facts.

#![allow(missing_docs, reason = "a comment explains what a name does not")]

pub mod action;
pub mod backend;
pub mod checklist;
pub mod cluster_map;
pub mod command_line;
pub mod damage_map;
pub mod export;
pub mod facts;
pub mod guide;
pub mod innodb;
pub mod keymap;
pub mod list_filter;
pub mod look;
pub(crate) mod picker;
pub mod query;
pub mod ring;
pub mod run;
pub mod settings;
pub mod state;
pub mod terminal;
pub mod update;
pub mod view;
pub mod views;
