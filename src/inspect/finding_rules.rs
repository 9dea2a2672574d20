//! All rules by which something is a finding, each declared where it is detected.

use crate::analysis::dwb::{format, report};
use crate::analysis::pages::{
    checksum_witness, other_kind, page_links, relation_files, segment_check, short_relations,
};
use crate::analysis::start::{backup, belonging, cluster_condition, server_files};
use crate::analysis::{innodb, wal};
use crate::cluster::wal::notes;
use crate::inspect::check::{commits, made_in_replay};
use crate::inspect::{dwb_source, next, rebuild, verify};
use crate::report::Rule;

/// In the order of `docs/findings.md`.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let of_modules = [
        cluster_condition::RULES,
        belonging::RULES,
        backup::RULES,
        server_files::rules::RULES,
        short_relations::RULES,
        other_kind::RULES,
        commits::RULES,
        made_in_replay::RULES,
        dwb_source::RULES,
        report::RULES,
        format::patch::RULES,
        format::ring_finding::RULES,
        innodb::rules::RULES,
        verify::rules::RULES,
        rebuild::RULES,
        next::RULES,
        segment_check::RULES,
        relation_files::RULES,
        checksum_witness::RULES,
        page_links::RULES,
        super::wal::rules::RULES,
        super::wal::kept::RULES,
        super::wal::export::RULES,
        wal::clock::RULES,
        wal::unreadable::RULES,
        notes::RULES,
    ];
    of_modules.into_iter().flatten().copied()
}
