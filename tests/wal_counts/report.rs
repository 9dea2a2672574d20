//! `pg_walfpi report`: the page and the plots say what `stats` and `whatif` say, run nothing, and go nowhere they must not go.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::common::bytes_read;
use crate::common::html::{all, assert_harmless, by_id, parse, table, text_of};
use crate::common::{Ran, arg, run, unpack};
use pgforensics::output::plot::{Chart, Unit};
use serde_json::Value;

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&walfpi(args).stdout).unwrap()
}

fn archive(major: u32) -> PathBuf {
    unpack::fixtures().join(format!("wal/pg{major}.tar.zst"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A number as the page writes it.
fn number(cell: &str) -> u64 {
    cell.replace('\u{202f}', "").parse().unwrap_or_else(|_| panic!("a number: {cell}"))
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn figures_are_those_of_stats_and_what_if() {
    for major in [10, 16, 18] {
        let temporary = tempfile::tempdir().unwrap();
        let (file, svg) = (temporary.path().join("report.html"), temporary.path().join("plots"));
        let wal = archive(major);
        let ran = walfpi(&["report", arg(&wal), "-o", arg(&file), "--svg", arg(&svg)]);
        let stats = json(&["stats", arg(&wal), "--format", "json"]);
        assert_eq!(
            (Value::from(ran.status), ran.stderr.as_str()),
            (stats["summary"]["exit_status"].clone(), ""),
            "{major}"
        );
        let text = fs::read_to_string(&file).unwrap();
        let page = parse(&text);
        assert_harmless(&page);

        let rows = table(by_id(&page, "share"), "Intervals");
        let intervals = list(&stats["intervals"]);
        assert_eq!(rows.len() - 1, intervals.len(), "{major}");
        let fields = ["wal_bytes", "records", "record_bytes", "fpi_count", "fpi_bytes"];
        for (row, interval) in rows[1..].iter().zip(intervals) {
            let cells: Vec<u64> = row[3..8].iter().map(|cell| number(cell)).collect();
            let expected: Vec<u64> = fields.iter().map(|field| interval[field].as_u64().unwrap()).collect();
            assert_eq!(cells, expected, "{major}: {row:?}");
            assert_eq!(row[8], format!("{:.1}", interval["fpi_share"].as_f64().unwrap() * 100.0), "{major}");
            assert_eq!(number(&row[9]), interval["distinct_blocks"].as_u64().unwrap());
            assert_eq!(row[2], interval["kind"].as_str().unwrap());
            let rate = |field: &str| interval[field].as_f64();
            for (cell, known) in [(&row[10], rate("duration_s")), (&row[11], rate("wal_mb_per_s"))] {
                let shown = cell.parse::<f64>().ok();
                assert_eq!(shown.is_some(), known.is_some(), "{major}: {row:?}");
                assert!(shown.zip(known).is_none_or(|(one, other)| (one - other).abs() <= 0.051), "{major}: {row:?}");
            }
        }

        let images = |rows: &[Vec<String>]| -> Vec<(String, u64, u64)> {
            rows[1..].iter().map(|row| (row[0].clone(), number(&row[1]), number(&row[2]))).collect()
        };
        let expected = |by: &str, name: &dyn Fn(&Value) -> String| -> BTreeMap<String, (u64, u64)> {
            let groups = json(&["stats", arg(&wal), "--by", by, "--format", "json"]);
            let groups = list(&groups["groups"]).iter().filter(|group| group["fpi_count"] != 0);
            groups
                .map(|group| {
                    (name(group), (group["fpi_count"].as_u64().unwrap(), group["fpi_bytes"].as_u64().unwrap()))
                })
                .collect()
        };
        let causes = images(&table(by_id(&page, "causes"), "All causes"));
        let known = expected("cause", &|group| group["cause"].as_str().unwrap().replace('_', " "));
        assert_eq!(
            causes.iter().map(|(name, count, bytes)| (name.clone(), (*count, *bytes))).collect::<BTreeMap<_, _>>(),
            known
        );
        let relations = images(&table(by_id(&page, "relations"), ""));
        let known =
            expected("relation", &|group| format!("{}/{}/{}", group["spc_oid"], group["db_oid"], group["rel_number"]));
        assert_eq!(relations.len(), known.len().min(40), "{major}");
        for (name, count, bytes) in &relations {
            assert_eq!(known.get(name), Some(&(*count, *bytes)), "{major}: {name}");
        }
        assert!(relations.windows(2).all(|pair| pair[0].2 >= pair[1].2), "{major}: by image bytes");
        let groups = json(&["stats", arg(&wal), "--by", "relation", "--format", "json"]);
        for row in &table(by_id(&page, "relations"), "")[1..] {
            let is_it =
                |group: &&Value| format!("{}/{}/{}", group["spc_oid"], group["db_oid"], group["rel_number"]) == row[0];
            let group = list(&groups["groups"]).iter().find(is_it).unwrap();
            let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            assert_eq!(
                row[6],
                dash(group["hot_share"].as_f64().map(|share| format!("{:.1}", share * 100.0))),
                "{row:?}"
            );
            assert!(
                row[4].replace(' ', "_").to_lowercase().contains(&group["kind"].as_str().unwrap().to_lowercase()),
                "{row:?}: {group}"
            );
            assert_eq!(row[8] == "-", group["likely_cause"].is_null(), "{row:?}: {group}");
        }
        let sizes = json(&["dwb-size", arg(&wal), "--format", "json"]);
        let needs: Vec<Vec<u64>> = list(&sizes["buffer_needs"])
            .iter()
            .map(|need| vec![need["blocks"].as_u64().unwrap(), need["slots"].as_u64().unwrap()])
            .collect();
        let shown: Vec<Vec<u64>> = table(by_id(&page, "dwb_size"), "double_write_buffer_size")[1..]
            .iter()
            .map(|row| vec![number(&row[1]), number(&row[5])])
            .collect();
        assert!(!needs.is_empty());
        assert_eq!(shown.iter().collect::<std::collections::BTreeSet<_>>(), needs.iter().collect(), "{major}");

        let replayed = json(&["whatif", arg(&wal), "--format", "json"]);
        let spacing = table(by_id(&page, "spacing"), "Checkpoints at other distances");
        let expected = list(&replayed["spacings"]);
        assert_eq!(spacing.len() - 1, expected.len(), "{major}");
        for (row, found) in spacing[1..].iter().zip(expected) {
            let cells: Vec<u64> = row[1..5].iter().map(|cell| number(cell)).collect();
            let known =
                ["checkpoints", "images", "image_bytes", "wal_bytes"].map(|field| found[field].as_u64().unwrap());
            assert_eq!(cells, known, "{major}: {row:?}");
            let read = (row[6] != "-").then(|| number(row[6].trim_start_matches("≥ ")));
            assert_eq!(read, found["replay_bytes_max"].as_u64(), "{major}: {row:?}");
        }
        let guards = table(by_id(&page, "protection"), "Guards");
        for (row, found) in guards[1..].iter().zip(list(&replayed["guards"])) {
            let cells: Vec<u64> = row[1..4].iter().map(|cell| number(cell)).collect();
            assert_eq!(
                cells,
                ["wal_bytes", "images", "image_bytes"].map(|field| found[field].as_u64().unwrap()),
                "{major}"
            );
        }
        let settings = table(by_id(&page, "compression"), "Settings");
        assert_eq!(number(&settings[1][1]), stats["summary"]["fpi_bytes"].as_u64().unwrap(), "{major}: as written");

        let plots: BTreeMap<String, String> = fs::read_dir(&svg)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
            .collect();
        for name in ["bytes", "share", "max_wal_size", "protection", "compression"] {
            assert!(plots.contains_key(&format!("{name}.svg")), "{major}: {name}");
        }
        assert_eq!(all(page.root_element(), "svg").len(), plots.len(), "{major}");
        for (name, text) in &plots {
            let plot = parse(text);
            let root = plot.root_element();
            assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"), "{name}");
            assert!(!text_of(all(root, "title")[0]).is_empty() && !text_of(all(root, "desc")[0]).is_empty(), "{name}");
            assert_eq!(all(root, "script").len() + all(root, "image").len(), 0, "{name}");
            let numbers = ["x", "y", "width", "height", "x1", "y1", "x2", "y2"];
            for attribute in
                root.descendants().flat_map(|node| node.attributes()).filter(|one| numbers.contains(&one.name()))
            {
                let value: f64 = attribute.value().parse().unwrap();
                assert!((-1.0..=2000.0).contains(&value), "{name}: {attribute:?}");
            }
        }
        // The bars that are drawn are as high as the numbers are large.
        let bytes = parse(&plots["bytes.svg"]);
        let heights: Vec<f64> = all(bytes.root_element(), "rect")
            .into_iter()
            .filter(|rect| rect.attribute("class") == Some("area s0") && !all(*rect, "title").is_empty())
            .map(|rect| rect.attribute("height").unwrap().parse().unwrap())
            .collect();
        let images: Vec<f64> = intervals.iter().map(|interval| interval["fpi_bytes"].as_f64().unwrap()).collect();
        let drawn: Vec<&f64> = images.iter().filter(|bytes| **bytes > 0.0).collect();
        assert_eq!(heights.len(), drawn.len(), "{major}");
        let (highest, most) = heights
            .iter()
            .zip(&drawn)
            .fold((0.0_f64, 0.0_f64), |(height, most), (one, bytes)| (height.max(*one), most.max(**bytes)));
        for (height, bytes) in heights.iter().zip(drawn) {
            assert!((height / highest - bytes / most).abs() < 0.01, "{major}: {height} for {bytes}");
        }
    }
}

#[test]
fn names_are_text_and_nothing_else() {
    let hostile = "<script>alert(1)</script>\"&'";
    let temporary = tempfile::tempdir().unwrap();
    let wal = archive(16);
    let groups = json(&["stats", arg(&wal), "--by", "relation", "--format", "json"]);
    let named: Vec<Value> = list(&groups["groups"])
        .iter()
        .filter(|group| !group["rel_number"].is_null())
        .map(|group| {
            serde_json::json!({"spc_oid": group["spc_oid"], "db_oid": group["db_oid"], "rel_number": group["rel_number"],
                "database": hostile, "schema": "public", "relation": format!("{hostile}{}", group["rel_number"])})
        })
        .collect();
    let names = temporary.path().join("names.json");
    fs::write(&names, serde_json::to_string(&named).unwrap()).unwrap();
    let (file, svg) = (temporary.path().join("r.html"), temporary.path().join("svg"));
    let ran = walfpi(&[
        "report",
        arg(&wal),
        "--names",
        arg(&names),
        "-o",
        arg(&file),
        "--svg",
        arg(&svg),
        "--no-compression",
    ]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let text = fs::read_to_string(&file).unwrap();
    let page = parse(&text);
    assert_harmless(&page);
    assert!(!text.contains("<script"));
    assert!(text_of(by_id(&page, "relations")).contains(&format!("{hostile}.public.{hostile}")));
    assert!(text_of(by_id(&page, "compression")).contains("were not compressed again"));
    assert!(!svg.join("compression.svg").exists());
}

#[test]
fn what_was_not_examined_stands_first_and_nothing_goes_into_what_is_read() {
    let temporary = tempfile::tempdir().unwrap();
    let wal = temporary.path().join("archive");
    fs::create_dir(&wal).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(fs::File::open(archive(16)).unwrap()).unwrap());
    archive.unpack(&wal).unwrap();
    let segments = walk(&wal).into_iter().filter(|path| path.file_name().unwrap().len() == 24).collect::<Vec<_>>();
    let directory = segments[0].parent().unwrap();
    let before = walk(&wal);
    let ran = walfpi(&["report", arg(directory), "--start", "FF/0", "-o", "-"]);
    let stats = json(&["stats", arg(directory), "--start", "FF/0", "--format", "json"]);
    let skipped = list(&stats["skipped"]);
    assert_eq!((ran.status, skipped.is_empty()), (2, false));
    let page = parse(&ran.stdout);
    let main = all(page.root_element(), "main")[0];
    let first = main.children().find(|node| node.is_element()).unwrap();
    assert!(text_of(first).starts_with("Not checked"), "{}", text_of(first));
    assert_eq!(all(first, "li").len(), skipped.len());
    for chapter in ["share", "decay", "relations", "causes", "spacing", "compression"] {
        assert!(
            all(by_id(&page, chapter), "svg").is_empty() && !all(by_id(&page, chapter), "p").is_empty(),
            "{chapter}"
        );
    }
    for (file, svg) in
        [(directory.join("r.html"), None), (temporary.path().join("r.html"), Some(directory.join("svg")))]
    {
        let svg = svg.as_deref().map_or_else(Vec::new, |svg| vec!["--svg", arg(svg)]);
        let ran = walfpi(&[&["report", arg(directory), "-o", arg(&file)], svg.as_slice()].concat());
        assert_eq!(ran.status, 2);
        assert!(ran.stderr.contains("Choose a directory outside the data directory"), "{}", ran.stderr);
    }
    assert_eq!(walk(&wal), before);
    assert!(!temporary.path().join("r.html").exists());
}

/// Hours of reading must not end with a plot that cannot be written.
#[test]
fn directory_of_plots_is_checked_before_wal_is_read() {
    let temporary = tempfile::tempdir().unwrap();
    let (file, svg) = (temporary.path().join("r.html"), temporary.path().join("svg"));
    let ran = walfpi(&["report", arg(&archive(16)), "-o", arg(&file), "--svg", arg(&svg)]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let plots = walk(&svg);
    assert!(plots.len() >= 6);
    let missing = temporary.path().join("no WAL here");
    for plot in plots {
        let taken = temporary.path().join(plot.file_stem().unwrap());
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join(plot.file_name().unwrap()), "mine").unwrap();
        let ran = walfpi(&["report", arg(&missing), "-o", "-", "--svg", arg(&taken)]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.contains(arg(&taken.join(plot.file_name().unwrap()))), "{}", ran.stderr);
    }
    let ran = walfpi(&["report", arg(&missing), "-o", "-", "--svg", arg(&temporary.path().join("new"))]);
    assert!(ran.status == 2 && ran.stderr.contains("no WAL here"), "{}", ran.stderr);
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Tables by the longest word of each column, plots by their size: all fit into a window of 1,000 pixels, a page of 952. A
/// digit takes at most 0.6 of the font's size, and relations with long names break anywhere.
#[test]
fn nothing_is_cut_off_in_a_window_of_1000_pixels() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("report.html");
    let ran = walfpi(&["report", arg(&archive(16)), "--names", "wal", "-o", arg(&file)]);
    assert!(ran.status < 2, "{}", ran.stderr);
    let text = fs::read_to_string(&file).unwrap();
    let page = parse(&text);
    let tables = all(page.root(), "table");
    assert!(tables.len() >= 12, "{}", tables.len());
    for table in tables {
        let rows: Vec<Vec<String>> = all(table, "tr")
            .into_iter()
            .map(|row| row.children().filter(roxmltree::Node::is_element).map(text_of).collect())
            .collect();
        let (letter, space) = match table.attribute("class").is_some_and(|class| class.contains("dense")) {
            true => (12.0 * 0.6, 6.4),
            false => (14.1 * 0.6, 14.4),
        };
        let longest = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            // Intervals of some GB have 10 digits in groups, where those here have more than 3.
            let words =
                cells.flat_map(|cell| cell.split([' ', '-', '/'])).map(|word| match word.contains('\u{202f}') {
                    true => 13,
                    false => word.chars().count(),
                });
            words.max().unwrap_or(0) as f64 * letter
        };
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width: f64 = (0..columns).map(|column| if column == 0 { 104.0 } else { longest(column) } + space).sum();
        assert!(width <= 952.0, "{width}: {:?}", rows[0]);
    }
    for plot in all(page.root(), "svg") {
        let width = plot.attribute("viewBox").unwrap().split(' ').nth(2).unwrap().parse::<f64>().unwrap();
        assert!(width <= 952.0, "{width}");
    }
}

/// One reading for counts and settings, a second one for what redo points must be known for, whatever is asked for at once.
/// The server of 18 marks redo points, so that no segment is divided later.
#[cfg(target_os = "linux")]
#[test]
fn wal_is_read_once_or_twice() {
    let wal = unpack::data_dir("wal/pg18").unwrap().join("pg_wal");
    let bytes = bytes_read("pg_walfpi", &["stats", "--by", "rmgr", arg(&wal)]);
    let temporary = tempfile::tempdir().unwrap();
    let [page, rows] = ["report.html", "rows"].map(|name| temporary.path().join(name));
    for (times, command) in [
        (1, &["stats"][..]),
        (1, &["stats", "--by", "relation"]),
        (1, &["whatif"]),
        (1, &["advise"]),
        (2, &["report", "-o", arg(&page)]),
        (2, &["export", "--table", "all", "-o", arg(&rows)]),
    ] {
        let read = bytes_read("pg_walfpi", &[command, &[arg(&wal)]].concat());
        let most = times * bytes + bytes / 10;
        assert!(read <= most, "{command:?}: {read} bytes, {bytes} for one reading");
    }
}

#[test]
fn small_plots_stay_as_they_are() {
    let chart = |places: &[&str], unit, series| Chart {
        name: "name",
        title: "Title",
        description: "Description",
        unit,
        left: "left",
        below: "below",
        places: places.iter().map(ToString::to_string).collect(),
        series,
    };
    let series = vec![("images", vec![Some(3.0), Some(0.0)]), ("rest", vec![Some(1.0), Some(2.0)])];
    let bars = chart(&["a & b", "c"], Unit::Count, series).bars();
    insta::assert_snapshot!("plot_bars", without_style(&bars.file()));
    let steps = chart(&["1", "2", "3"], Unit::Share, vec![("line", vec![Some(0.5), None, Some(0.25)])]).steps();
    insta::assert_snapshot!("plot_steps", without_style(&steps.file()));
}

/// A plot without its style sheet, an element a line.
fn without_style(svg: &str) -> String {
    let (head, rest) = svg.split_once("<style>").unwrap();
    let (_, tail) = rest.split_once("</style>").unwrap();
    format!("{head}{}", tail.trim()).replace("><", ">\n<")
}
