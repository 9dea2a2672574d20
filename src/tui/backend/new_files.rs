//! New files in the current directory: exports of views, and saved plans. Nothing that exists is overwritten.

use std::path::{Path, PathBuf};

use crate::inspect::error::InspectError;
use crate::repair::export::ExportDir;
use crate::repair::plan::Plan;
use crate::repair::plan_file;

/// Files of one name that are tried before giving up.
const MAX_OF_A_NAME: u32 = 1000;

/// Writes a view as text and as JSON, and returns the path of the text. Nothing is written into `protected` directories.
pub(super) fn export(name: &str, text: &str, json: &str, protected: &[PathBuf]) -> Result<PathBuf, InspectError> {
    write_all(name, &[("txt", text), ("json", json)], protected)
}

/// Writes new files of one name, each with its ending, and returns the path of the first. Nothing is written into `protected`
/// directories.
pub(super) fn write_all(name: &str, parts: &[(&str, &str)], protected: &[PathBuf]) -> Result<PathBuf, InspectError> {
    let directory = ExportDir::create(Path::new("."), protected)?;
    let endings: Vec<&str> = parts.iter().map(|(ending, _)| *ending).collect();
    let stem = free_name(name, &endings);
    let mut first = PathBuf::new();
    for (at, (ending, text)) in parts.iter().enumerate() {
        let path = directory.write_new(&format!("{stem}.{ending}"), text.as_bytes())?;
        if at == 0 {
            first = path;
        }
    }
    Ok(absolute(&first))
}

pub(super) fn save_plan(plan: &Plan, protected: &[PathBuf]) -> Result<PathBuf, InspectError> {
    let path = PathBuf::from(format!("{}.json", free_name("repair_plan", &["json"])));
    plan_file::save(&path, plan, protected)?;
    Ok(absolute(&path))
}

/// A name that no file in the current directory has with any of these endings.
fn free_name(name: &str, endings: &[&str]) -> String {
    let is_free = |stem: &String| endings.iter().all(|ending| !Path::new(&format!("{stem}.{ending}")).exists());
    let numbered = (2..MAX_OF_A_NAME).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_else(|| name.to_owned())
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
