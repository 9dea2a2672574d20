//! Statements that change tables with indexes of all types, values out of line, unlogged tables, and files that come and go.

use super::draw::Draw;

/// Rows of the tables, at first.
const ROWS: usize = 3000;
/// Statements of a load that a crash ends early, mostly.
pub const STATEMENTS: usize = 700;
/// Statements of the load that a standby replays.
pub const STATEMENTS_OF_A_PRIMARY: usize = 120;

/// Values of a row by its number `i` alone: the load is the same every time.
const SETUP: &str = "
create extension if not exists amcheck;
create tablespace elsewhere location '';
create table account(id int primary key, k int, filler text) with (fillfactor = 85);
insert into account select i, i % 997, repeat(md5(i::text), 1 + i % 4) from generate_series(1, ROWS) i;
create index account_k on account(k);
create index account_filler on account(filler);
create index account_hash on account using hash(k);
create index account_brin on account using brin(id) with (pages_per_range = 4, autosummarize = off);
create table document(id serial primary key, tags int[], words tsvector);
insert into document(tags, words) select array[i % 7, i % 31, i % 301], to_tsvector('simple', md5(i::text) || ' w' || i % 50)
  from generate_series(1, ROWS) i;
create index document_tags on document using gin(tags);
create index document_words on document using gin(words) with (fastupdate = off);
create table spot(id int primary key, at point, area box, name text);
insert into spot select i, point(i % 71, i % 53), box(point(i % 71, i % 53), point(i % 71 + 3, i % 53 + 2)), 'n' || md5(i::text)
  from generate_series(1, ROWS) i;
create index spot_at on spot using gist(at);
create index spot_quad on spot using spgist(at);
create index spot_area on spot using gist(area);
create index spot_name on spot using spgist(name);
create table long(id int primary key, body text, packed text);
alter table long alter body set storage external;
insert into long select i, repeat(md5(i::text), 20 + i % 300), repeat('x' || i % 10, 3000) from generate_series(1, ROWS / 20) i;
create unlogged table brief(id int primary key, v text);
insert into brief select i, md5(i::text) from generate_series(1, ROWS / 2) i;
create table part(id int, v text) partition by range (id);
create table part_low partition of part for values from (0) to (100000);
create table part_high partition of part for values from (100000) to (maxvalue);
create index part_low_v on part_low(v);
insert into part select i * 67, md5(i::text) from generate_series(1, ROWS) i;
create table far(id int, v text);
alter table far set tablespace elsewhere;
insert into far select i, md5(i::text) from generate_series(1, ROWS) i;
create index far_v on far(v);
create table queue(id bigserial, v text);
create materialized view counts as select k % 10 as k, count(*) from account group by 1;
create table growing(id int, v text) with (fillfactor = 60);
create database other;
vacuum freeze account;
checkpoint;
";

/// What is there before anything is logged.
pub fn setup() -> String {
    SETUP.replace("ROWS", &ROWS.to_string())
}

/// The load: so many statements.
pub fn load(statements: usize, draw: &mut Draw) -> String {
    let mut all = String::from("set client_min_messages = error;\n");
    let checkpoints = draw.one_of(&[2, 5, 10]);
    // Most crashes come between a checkpoint and the next, with a long way to replay or a short one.
    let mut state = State { next: ROWS + 1, ..State::default() };
    for number in 0..statements {
        let statement = if draw.percent(checkpoints) {
            "checkpoint;".to_owned()
        } else if number % 90 == 89 {
            // Some of the work is done in another database.
            format!(
                "\\c other\ncreate table if not exists guest(id int primary key, v text);\n\
                 insert into guest select i, md5(i::text) from generate_series({number}, {}) i on conflict do nothing;\n\
                 update guest set v = 'v' || id where id % 3 = 0;\n\\c postgres\nset client_min_messages = error;",
                number + 800
            )
        } else {
            state.statement(draw)
        };
        all.push_str(&statement);
        all.push('\n');
    }
    all
}

/// What is open or numbered on from statement to statement.
#[derive(Default)]
struct State {
    next: usize,
    prepared: Vec<usize>,
    tables: Vec<usize>,
    databases: Vec<usize>,
}

impl State {
    fn statement(&mut self, draw: &mut Draw) -> String {
        let (m, r) = draw.one_of(&[(3, 1), (11, 4), (37, 5), (101, 9), (401, 7)]);
        let from = draw.below(self.next);
        self.next += 40;
        let next = self.next;
        match draw.below(44) {
            0..=3 => format!("update account set k = k + {r} where id % {m} = {r};"),
            4 | 5 => format!("update account set filler = md5(filler || '{next}') where id % {m} = {r};"),
            6 => format!("delete from account where id between {from} and {};", from + 60),
            7 | 8 => format!(
                "insert into account select i, i % 97, md5(i::text) from generate_series({next}, {}) i \
                 on conflict do nothing;",
                next + 39
            ),
            9 => format!("select * from account where id % {m} = {r} for update;"),
            10 | 11 => format!(
                "insert into document(tags, words) select array[i % 5, i % 203], to_tsvector('simple', 'w' || i) \
                 from generate_series({next}, {}) i;",
                next + 60
            ),
            12 => format!("update document set tags = tags || {r} where id % {m} = {r};"),
            13 => format!("delete from document where id % {m} = {r};"),
            14 | 15 => format!("update spot set at = at + point(1, {r}), name = name || 'z' where id % {m} = {r};"),
            16 => format!(
                "insert into spot select i, point(i % 91, i % 83), box(point(i % 91, 1), point(2, i % 83)), 's' || i \
                 from generate_series({next}, {}) i on conflict do nothing;",
                next + 39
            ),
            17 => format!("delete from spot where id between {from} and {};", from + 80),
            18 | 19 => format!("update long set body = body || md5('{next}') where id % {m} = {};", r % 3),
            20 => format!("delete from long where id = {}; insert into long values({next}, repeat(md5('{next}'), 400), 'y');", from % 150),
            21 => format!("update brief set v = v || '{r}' where id % {m} = {r};"),
            22 => format!("update part set id = id + 50000 where id % {m} = {r};"),
            23 | 24 => format!("update far set v = md5(v) where id % {m} = {r};"),
            25 | 26 => format!("insert into queue(v) select md5(i::text) from generate_series(1, {}) i;", 20 * r),
            27 => format!("delete from queue where id % {m} = {r};"),
            28 => format!("insert into growing select i, repeat('g', {}) from generate_series(1, {}) i;", 10 * r, 30 * r),
            29 => draw.one_of(&["truncate queue;", "truncate growing;", "truncate brief;"]).to_owned(),
            30 | 31 => draw
                .one_of(&["vacuum account;", "vacuum document;", "vacuum spot;", "vacuum;", "vacuum queue;", "vacuum freeze far;"])
                .to_owned(),
            32 => draw.one_of(&["vacuum full account;", "vacuum full long;", "vacuum full spot;", "vacuum full pg_class;"]).to_owned(),
            33 => draw
                .one_of(&["reindex table document;", "reindex index spot_quad;", "reindex index account_hash;", "reindex table part_low;"])
                .to_owned(),
            34 => {
                self.tables.push(next);
                format!("create table t{next} as select i, md5(i::text) v from generate_series(1, {}) i; create index on t{next}(v);", 90 * r)
            }
            35 => self.tables.pop().map_or_else(
                || "analyze;".to_owned(),
                |table| format!("update t{table} set v = 'n'; alter table t{table} add extra int default {r}; drop table t{table};"),
            ),
            36 => format!(
                "begin; update account set k = 0 where id % {m} = {r}; savepoint a; delete from spot where id % {m} = {r}; \
                 rollback to a; insert into queue(v) values('kept'); {};",
                draw.one_of(&["commit", "rollback"])
            ),
            37 if self.prepared.len() < 6 => {
                self.prepared.push(next);
                format!("begin; insert into growing values({next}, 'prepared'); prepare transaction 'p{next}';")
            }
            37 | 38 => {
                let end = draw.one_of(&["commit", "rollback"]);
                self.prepared.pop().map_or_else(|| "analyze;".to_owned(), |one| format!("{end} prepared 'p{one}';"))
            }
            39 => "refresh materialized view counts;".to_owned(),
            40 => {
                if self.databases.is_empty() && draw.percent(60) {
                    self.databases.push(next);
                    format!("create database d{next};")
                } else {
                    self.databases.pop().map_or_else(|| "select 1;".to_owned(), |one| format!("drop database d{one};"))
                }
            }
            41 => format!("alter table far set tablespace {};", draw.one_of(&["elsewhere", "pg_default"])),
            42 => "select count(*) from account; select count(*) from spot; select count(*) from queue;".to_owned(),
            _ => format!("select brin_summarize_new_values('account_brin'); update account set id = id where id % {m} = {r};"),
        }
    }
}
