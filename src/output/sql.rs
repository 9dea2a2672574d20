//! Names as SQL takes them.
//! Also here: relations with lost pages, in words, with the statements that recreate them or save undamaged
//! rows.

use super::escape::quoted;
use super::next_step_text::{StepContext, Words};
use crate::analysis::verdict::next_step::{Affected, Lost, NamedRelation, Owner, Rebuilt};
use crate::types::BlockNumber;

/// Words that stand for something else in SQL unless they are quoted.
///
/// Source: keywords with category `reserved` or `type_func_name`, `src/include/parser/kwlist.h`.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// A name, quoted where SQL would read it otherwise.
pub(crate) fn quoted_name(name: &str) -> String {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if first && plain && !RESERVED.contains(&name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Rows of a page that are named when nothing says how many there are: as many as fit without a byte of data.
///
/// Source: `MaxHeapTuplesPerPage`, `src/include/access/htup_details.h`.
pub(crate) const fn most_items(block_size: usize) -> usize {
    block_size.saturating_sub(24) / 28
}

/// Runs of blocks that are named one by one.
pub(super) const MAX_RUNS: usize = 6;

/// Blocks, as `4, 7-9`.
fn blocks(affected: &Affected) -> String {
    let one = |(first, last): &(BlockNumber, BlockNumber)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let list: Vec<String> = affected.blocks.iter().take(MAX_RUNS).map(one).collect();
    let more = if affected.blocks.len() > MAX_RUNS { ", …" } else { "" };
    let noun = match affected.blocks[..] {
        [(first, last)] if first == last => "block",
        _ => "blocks",
    };
    format!("{noun} {}{more}", list.join(", "))
}

pub(super) fn rebuild(kind: Rebuilt, relations: &[Affected], context: StepContext<'_>) -> Words {
    let mut words = match kind {
        Rebuilt::SystemIndexes => {
            Words::new("Rebuild these indexes of system catalogs in single-user mode; no data is lost.")
                .because("The option -P ignores system indexes.")
        }
        Rebuilt::Indexes => Words::new(
            "Rebuild these indexes after the server has started and all pages of their tables are readable; no data is lost.",
        )
        .because(
            "Until then, queries that use them fail or miss rows. REINDEX of a unique index fails if the table contains \
             duplicates.",
        ),
        Rebuilt::MaterializedViews => {
            Words::new("Refresh these materialized views after the server has started; no data is lost.")
        }
    };
    for one in relations {
        let what = match &one.subject.owner {
            Owner::Index { method, table } => {
                let method = method.map_or_else(String::new, |method| format!("{method} "));
                let table = table.as_ref().map_or_else(String::new, |table| format!(" of {table}"));
                format!(", a {method}index{table}")
            }
            _ => String::new(),
        };
        words.items.push(format!("{} ({}){what}", one.subject.name, blocks(one)));
        words.commands.push(match kind {
            Rebuilt::Indexes => in_psql(&one.subject, "REINDEX INDEX", ""),
            Rebuilt::MaterializedViews => in_psql(&one.subject, "REFRESH MATERIALIZED VIEW", ""),
            Rebuilt::SystemIndexes => {
                let database = one.subject.database.as_deref().unwrap_or("template1");
                let statement = format!("REINDEX INDEX {}", sql_name(&one.subject));
                let dir = quoted(context.data_dir);
                format!("echo {} | postgres --single -P -D {dir} {}", quoted(&statement), quoted(database))
            }
        });
    }
    words
}

fn sql_name(subject: &NamedRelation) -> &str {
    subject.sql_name.as_deref().unwrap_or(&subject.name)
}

/// A statement about the relation in its database.
fn in_psql(subject: &NamedRelation, verb: &str, rest: &str) -> String {
    let database = subject.database.as_deref().unwrap_or("DATABASE");
    let statement = if verb.is_empty() { rest.to_owned() } else { format!("{verb} {}{rest}", sql_name(subject)) };
    format!("psql -d {} -c {}", quoted(database), quoted(&statement))
}

fn tids(affected: &Affected, context: StepContext<'_>) -> String {
    let most = most_items(context.block_size);
    let one = |(first, last): &(BlockNumber, BlockNumber)| format!("({first},1)..({last},{most})");
    let list: Vec<String> = affected.blocks.iter().take(MAX_RUNS).map(one).collect();
    let more = if affected.blocks.len() > MAX_RUNS { ", …" } else { "" };
    format!("{}{more}", list.join(", "))
}

/// Statement that reads the rows of all pages but these: a branch for each range, since a scan by several ranges reads all pages.
fn rest_of(affected: &Affected) -> String {
    let firsts = affected.blocks.iter().map(|(first, _)| Some(*first)).chain([None]);
    let lasts = [None].into_iter().chain(affected.blocks.iter().map(|(_, last)| Some(*last)));
    let name = sql_name(&affected.subject);
    let branch = |(after, before): (Option<BlockNumber>, Option<BlockNumber>)| {
        let after = after.map(|block| format!("ctid >= '({},0)'", block.saturating_add(1)));
        let before = before.filter(|block| *block > 0).map(|block| format!("ctid < '({block},0)'"));
        if after.is_none() && before.is_none() {
            return None;
        }
        let all: Vec<String> = after.into_iter().chain(before).collect();
        Some(format!("SELECT * FROM {name} WHERE {}", all.join(" AND ")))
    };
    let branches: Vec<String> = lasts.zip(firsts).filter_map(branch).collect();
    format!("COPY ({}) TO STDOUT", branches.join(" UNION ALL "))
}

pub(super) fn salvage(kind: Lost, relations: &[Affected], context: StepContext<'_>) -> Words {
    let mut words = match kind {
        Lost::Catalogs => Words::new(
            "Restore the cluster from a backup. Without one, salvage copies out the rows of all tables.",
        )
        .because(
            "These are pages of system catalogs, and nothing can rebuild them. With --schema FILE (pg_dump --schema-only), \
             salvage also copies rows of tables whose columns these pages described.",
        ),
        Lost::Tables => Words::new(
            "Recover these table rows (by ctid) from a backup or standby. Without one, salvage copies out every row that \
             still exists, also from damaged pages.",
        )
        .because(
            "Salvage starts no server on this cluster. psql reads the undamaged pages of a running copy (14 and later); with \
             ignore_checksum_failure = on, also pages that fail only their checksum.",
        ),
        Lost::Toast => Words::new(
            "Recover these long (TOAST) values from a backup, or set them to NULL row by row.",
        )
        .because(
            "The rows exist; only reading such a value fails. Values with a chunk in these ctids are lost without a backup.",
        ),
        Lost::Sequences => Words::new(
            "Recreate these sequences, or set them above every value already used, after the server has started.",
        )
        .because("Their last value is lost."),
        Lost::Unknown => Words::new("Find out what these relations are: the readable catalogs do not say.")
            .because("REINDEX rebuilds an index. The rows of a table with these ctids are at risk."),
    };
    if matches!(kind, Lost::Catalogs | Lost::Tables) {
        words.commands.push(format!("pg_dwbinspect salvage {} -o RESCUE", quoted(context.data_dir)));
    }
    for one in relations {
        let of = match &one.subject.owner {
            Owner::Toast { table: Some(table) } => format!(" of {table}"),
            _ => String::new(),
        };
        let ctid = match kind {
            Lost::Tables | Lost::Toast | Lost::Unknown => format!(": ctid {}", tids(one, context)),
            Lost::Catalogs | Lost::Sequences => String::new(),
        };
        words.items.push(format!("{}{of} ({}){ctid}", one.subject.name, blocks(one)));
        if kind == Lost::Tables && one.blocks.len() <= MAX_RUNS {
            words.commands.push(in_psql(&one.subject, "", &rest_of(one)));
        }
        if kind == Lost::Sequences {
            words.commands.push(in_psql(&one.subject, "ALTER SEQUENCE", " RESTART WITH NUMBER"));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        assert_eq!(quoted_name("orders_2"), "orders_2");
        for name in ["Orders", "2orders", "order", "", "a b", "a.b", "caf\u{e9}", "user"] {
            assert_eq!(quoted_name(name), format!("\"{name}\""));
        }
        assert_eq!(quoted_name("say \"hi\""), "\"say \"\"hi\"\"\"");
    }

    #[test]
    fn an_item_takes_28_bytes_at_least() {
        // MaxHeapTuplesPerPage of servers with pages of 8 and 32 kB.
        assert_eq!((most_items(8192), most_items(32_768)), (291, 1169));
    }
}
