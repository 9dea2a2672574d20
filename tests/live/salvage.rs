//! Rows that `salvage` copies out, compared with what the server printed of them.

use crate::common::live::{Server, all_programs};
use crate::common::{arg, dwbinspect};

/// Before 12 a server looks for the file of a composite type.
#[test]
fn values_of_composite_types_are_those_of_the_server() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        let server = Server::create_with(bin.clone(), client.clone(), &[], "");
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create type pair as (a int, b text[]); create table t (c pair, d pair[])");
        server.sql(
            "insert into t select p, array[p] from (select row(i, '{x,y}')::pair p from generate_series(1, 3) i) s",
        );
        let expected = server.sql("copy t to stdout");
        server.stop("fast");
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("out");
        let ran = dwbinspect(&["salvage", arg(&server.data()), "-o", arg(&out), "--pg-bin", arg(&bin)]);
        let rows = std::fs::read_to_string(out.join("postgres/public.t.copy")).unwrap_or_default();
        assert_eq!(rows, expected, "{}: {}{}", bin.display(), ran.stdout, ran.stderr);
    }
}
