//! A report as Markdown, made from its page: what tickets and chats take.

use roxmltree::{Document, Node, ParsingOptions};

/// The same page as Markdown (with tables). What a browser alone shows, plots and the contents, is left out. What is not a
/// page stays as it is, between fences.
pub(crate) fn markdown_of(page: &str) -> String {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(page, options);
    let mut out = String::new();
    let body = document.iter().flat_map(Document::descendants).find(|node| node.has_tag_name("body"));
    match body {
        Some(body) => body.children().for_each(|child| block(child, &mut out)),
        None => fenced(page, &mut out),
    }
    out
}

/// What a block element holds, each block followed by an empty line.
fn block(node: Node<'_, '_>, out: &mut String) {
    match node.tag_name().name() {
        "nav" | "svg" | "figcaption" => {}
        "h1" => line(out, "# ", &words(node)),
        "h2" if is_box(node.parent()) => line(out, "", &format!("**{}**", words(node))),
        "h2" => line(out, "## ", &words(node)),
        "h3" => line(out, "### ", &words(node)),
        "p" => line(out, "", &words(node)),
        "ul" | "ol" => {
            for item in node.children().filter(|child| child.has_tag_name("li")) {
                list_item(item, out);
            }
            out.push('\n');
        }
        "dl" => {
            for child in node.children().filter(Node::is_element) {
                let text = words(child);
                match child.tag_name().name() {
                    "dt" => out.push_str(&format!("- **{text}**: ")),
                    _ => out.push_str(&format!("{text}\n")),
                }
            }
            out.push('\n');
        }
        "pre" => fenced(&plain(node), out),
        "table" => table(node, out),
        _ => node.children().for_each(|child| block(child, out)),
    }
}

fn is_box(node: Option<Node<'_, '_>>) -> bool {
    node.and_then(|node| node.attribute("class")).is_some_and(|class| class.starts_with("box"))
}

fn line(out: &mut String, lead: &str, text: &str) {
    if !text.is_empty() {
        out.push_str(&format!("{lead}{text}\n\n"));
    }
}

/// An item of a list, and below it what else it holds.
fn list_item(item: Node<'_, '_>, out: &mut String) {
    let is_block = |node: &Node<'_, '_>| matches!(node.tag_name().name(), "ul" | "ol" | "pre" | "p" | "table");
    let own: String = item.children().filter(|child| !is_block(child)).map(inline).collect();
    out.push_str(&format!("- {}\n", own.trim()));
    let mut inside = String::new();
    item.children().filter(is_block).for_each(|child| block(child, &mut inside));
    for line in inside.trim_end().lines() {
        out.push_str(if line.is_empty() { "" } else { "  " });
        out.push_str(line);
        out.push('\n');
    }
}

fn table(node: Node<'_, '_>, out: &mut String) {
    let rows = |part: &'static str| {
        let rows = node.descendants().filter(move |row| row.has_tag_name("tr"));
        rows.filter(move |row| row.parent().is_some_and(|parent| parent.has_tag_name(part)))
    };
    if let Some(caption) = node.children().find(|child| child.has_tag_name("caption")) {
        line(out, "", &format!("*{}*", words(caption)));
    }
    let cells = |row: Node<'_, '_>| -> Vec<String> {
        row.children().filter(Node::is_element).map(|cell| words(cell).replace('\n', " ")).collect()
    };
    for head in rows("thead").map(cells) {
        out.push_str(&format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len())));
    }
    for row in rows("tbody").map(cells) {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out.push('\n');
}

/// Lines as they are, between fences that none of them can end.
fn fenced(text: &str, out: &mut String) {
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    out.push_str(&format!("{fence}\n{}\n{fence}\n\n", text.trim_end()));
}

fn plain(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

fn words(node: Node<'_, '_>) -> String {
    node.children().map(inline).collect::<String>().trim().to_owned()
}

fn inline(node: Node<'_, '_>) -> String {
    if node.is_text() {
        return escaped(node.text().unwrap_or_default());
    }
    match node.tag_name().name() {
        "code" => code(&plain(node)),
        "br" => " ".to_owned(),
        "svg" => String::new(),
        "span" => format!("**{}**", words(node)),
        _ => node.children().map(inline).collect(),
    }
}

/// A code span that its text cannot end; in a table a bar would end the cell.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text, '`') + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

/// Text in which nothing means something to Markdown, nor to the HTML that Markdown may hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '!' => out.extend(['\\', c]),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::html::{Cell, Table, commands, facts, list, page, paragraph, section, table};

    #[test]
    fn every_part_of_a_page_is_there_and_nothing_of_it_is_markup() {
        let hostile = "a|b*c_d`e<script>&[x](y)\n# no";
        let text = page(
            "t",
            "p",
            &[("one", "One")],
            |head| head.leaf("h1", &[], "Title"),
            |main| {
                section(main, "one", "One", |one| {
                    paragraph(one, hostile);
                    facts(one, &[("label", hostile)]);
                    list(one, [hostile.to_owned()]);
                    commands(one, "ls `x`\n```\nend");
                    let rows = vec![vec![Cell::code(hostile), Cell::number(3)]];
                    table(one, &Table { caption: "c".to_owned(), headings: vec!["h", "n"], rows });
                });
            },
        );
        // The page shows a line break in a name as an escape.
        let safe = "a\\|b\\*c\\_d\\`e\\<script\\>\\&\\[x\\](y)\\\\n\\# no";
        let code = "``a\\|b*c_d`e<script>&[x](y)\\n# no``";
        let expected = format!(
            "# Title\n\n## One\n\n{safe}\n\n- **label**: {safe}\n\n- {safe}\n\n````\nls `x`\n```\nend\n````\n\n*c*\n\n\
             | h | n |\n| --- | --- |\n| {code} | 3 |\n\n"
        );
        assert_eq!(markdown_of(&text), expected);
        assert_eq!(markdown_of("no page"), "```\nno page\n```\n\n");
    }
}
