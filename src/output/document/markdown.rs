//! A document as Markdown (with tables), for tickets and chats. Plots are left out: their numbers are there.

use super::{Block, Blocks, Document, Line, Span};
use crate::output::escape::printable;

impl Document {
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        let lead = self.lead.iter().map(|line| words(line) + "\n\n");
        out.extend(std::iter::once(format!("# {}\n\n", escaped(self.heading))).chain(lead));
        write_blocks(&mut out, &self.body, "##");
        out
    }
}

/// `heading`: what stands before the heading of a section.
fn write_blocks(out: &mut String, blocks: &Blocks, heading: &str) {
    for block in &blocks.0 {
        write_block(out, block, heading);
    }
}

/// Each block is followed by an empty line.
fn write_block(out: &mut String, block: &Block, lead: &str) {
    match block {
        Block::Section { heading, content, .. } => {
            out.push_str(&format!("{lead} {}\n\n", escaped(heading)));
            return write_blocks(out, content, &format!("{lead}#"));
        }
        Block::StrongBox { heading, content, .. } => {
            out.push_str(&format!("**{}**\n\n", escaped(heading)));
            return write_blocks(out, content, lead);
        }
        Block::Figure(_, below) => return write_blocks(out, below, lead),
        Block::Subheading(text) => out.push_str(&format!("{lead} {}\n", escaped(text))),
        Block::Paragraph(line) | Block::Note(line) => out.push_str(&(words(line) + "\n")),
        Block::Facts(facts) => {
            for (label, value) in facts {
                let label = if label.is_empty() { "  - ".to_owned() } else { format!("- **{}**: ", escaped(label)) };
                out.push_str(&format!("{label}{}\n", words(value)));
            }
        }
        Block::List(_, items) => {
            for (line, below) in items {
                out.push_str(&format!("- {}\n", words(line)));
                let mut inside = String::new();
                write_blocks(&mut inside, below, lead);
                for line in inside.trim_end().lines() {
                    out.push_str(format!("  {line}").trim_end());
                    out.push('\n');
                }
            }
        }
        Block::Lines(lines) => {
            let plain: Vec<String> =
                lines.iter().map(|Line(spans)| spans.iter().map(|span| printable(span.as_str())).collect()).collect();
            let text = plain.join("\n");
            let fence = "`".repeat(longest_run(&text).max(2) + 1);
            out.push_str(&format!("{fence}\n{text}\n{fence}\n"));
        }
        Block::Table { caption, headings, rows } => {
            if !caption.is_empty() {
                out.push_str(&format!("*{}*\n\n", escaped(caption)));
            }
            let headings: Vec<String> = headings.iter().map(|heading| escaped(heading)).collect();
            out.push_str(&format!("| {} |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len())));
            for row in rows {
                out.push_str(&format!("| {} |\n", row.iter().map(inline).collect::<Vec<_>>().join(" | ")));
            }
        }
    }
    out.push('\n');
}

fn words(Line(spans): &Line) -> String {
    spans.iter().map(inline).collect()
}

fn inline(span: &Span) -> String {
    match span {
        Span::Code(text) | Span::Digest(text) => code(&printable(text)),
        Span::Strong(text) | Span::Mark(text, _) => format!("**{}**", escaped(text)),
        Span::Text(text) | Span::Number(text) | Span::Link(text, _) => escaped(text),
    }
}

/// A code span that its text cannot end; in a table a bar would end the cell.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

/// The most backticks that follow each other.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Text in which nothing means something to Markdown, nor to the HTML that Markdown may hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_document_is_there_and_nothing_of_it_is_markup() {
        let hostile = "a|b*c_d`e<script>&[x](y)\n# no";
        let body = Blocks::of(|body| {
            body.section("one", "One", |one| {
                one.paragraph(hostile);
                one.facts([("label", hostile)]);
                one.list([hostile.to_owned()]);
                one.commands("ls `x`\n```\nend");
                one.table("c", ["h", "n"], [[Span::code(hostile), Span::number(3)]]);
            });
        });
        let document = Document { title: "t".to_owned(), program: "p", heading: "Title", lead: Vec::new(), body };
        // A line break in a name is shown as an escape.
        let safe = "a\\|b\\*c\\_d\\`e\\<script\\>\\&\\[x\\](y)\\\\n\\# no";
        let code = "``a\\|b*c_d`e<script>&[x](y)\\n# no``";
        let expected = format!(
            "# Title\n\n## One\n\n{safe}\n\n- **label**: {safe}\n\n- {safe}\n\n````\nls `x`\n```\nend\n````\n\n*c*\n\n\
             | h | n |\n| --- | --- |\n| {code} | 3 |\n\n"
        );
        assert_eq!(document.markdown(), expected);
    }
}
