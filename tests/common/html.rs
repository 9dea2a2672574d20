//! Pages that the programs write, read as XML.

use roxmltree::{Document, Node, ParsingOptions};

/// Reads a page; fails where it is not XML.
pub fn parse(text: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).expect("the page is XML")
}

/// All text in an element.
pub fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// The element with this id.
pub fn by_id<'a, 'input>(page: &'a Document<'input>, id: &str) -> Node<'a, 'input> {
    page.descendants().find(|node| node.attribute("id") == Some(id)).unwrap_or_else(|| panic!("there is no {id}"))
}

/// The elements of a name below a node.
pub fn all<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Vec<Node<'a, 'input>> {
    node.descendants().filter(|inner| inner.tag_name().name() == name).collect()
}

/// The rows of the table of a section whose caption begins so, each cell as text; headings first.
pub fn table(section: Node<'_, '_>, caption: &str) -> Vec<Vec<String>> {
    let is_it = |table: &Node<'_, '_>| {
        all(*table, "caption").first().map(|node| text_of(*node)).unwrap_or_default().starts_with(caption)
    };
    let found = all(section, "table").into_iter().find(is_it);
    let table = found.unwrap_or_else(|| panic!("there is no table {caption:?}"));
    let cells = |row: Node<'_, '_>| row.children().filter(Node::is_element).map(text_of).collect();
    all(table, "tr").into_iter().map(cells).collect()
}

/// Fails when a page would load or run anything, or holds an element that does.
pub fn assert_harmless(page: &Document<'_>) {
    let mut policy = None;
    for node in page.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            !["script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "foreignObject"]
                .contains(&name),
            "{name}"
        );
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(!key.starts_with("on") && !["src", "style", "srcset", "action"].contains(&key), "{name} {key}");
            assert!(key != "href" || value.starts_with('#'), "{name} {key}={value}");
        }
        if node.attribute("http-equiv") == Some("Content-Security-Policy") {
            policy = node.attribute("content");
        }
    }
    let policy = policy.expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'unsafe-inline'"), "{policy}");
    // Every link within the page leads somewhere.
    for link in page.descendants().filter_map(|node| node.attribute("href")) {
        by_id(page, &link[1..]);
    }
}
