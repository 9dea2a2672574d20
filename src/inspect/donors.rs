//! Older copies of a cluster that the user named.

use std::path::PathBuf;

use super::cluster_wal::WalSources;
use super::error::InspectError;
use crate::cluster::data_dir::DataDir;
use crate::cluster::donor::{Donor, DonorHost};
use crate::parsers::control::ControlFile;

/// Opens donors of the cluster in `directory`; `control`: its control file, if that can be trusted.
pub(crate) fn open_donors(
    paths: &[PathBuf],
    directory: &DataDir,
    control: Option<&ControlFile>,
) -> Result<Vec<Donor>, InspectError> {
    let host = DonorHost { root: directory.root(), control, major: directory.major() };
    let open = |path: &PathBuf| Donor::open(path, &host).map_err(|why| InspectError::donor(path, why));
    paths.iter().map(open).collect()
}

/// Compares the donors' lines of history with that of the cluster, as far as its WAL tells.
pub(crate) fn follow_timelines(
    donors: &mut [Donor],
    control: Option<&ControlFile>,
    wal: &WalSources,
) -> Result<(), InspectError> {
    let Some(tli) = control.map(ControlFile::timeline) else { return Ok(()) };
    let history = wal.all.as_ref().or(wal.own.as_ref()).and_then(|set| set.history());
    for donor in donors {
        let path = donor.path().to_owned();
        donor.follow(tli, history).map_err(|why| InspectError::donor(&path, why))?;
    }
    Ok(())
}
