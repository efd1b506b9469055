//! The comparison as a page for a browser.

/// The page: the table as it is printed, and the drawings.
pub(crate) fn html(table: &str, drawings: &[String]) -> String {
    let escaped = table
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let figures: String = drawings
        .iter()
        .map(|drawing| format!("<figure>{drawing}</figure>\n"))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>oxifabric: bench</title>\n\
         <style>body{{font-family:sans-serif;margin:1rem}}pre{{overflow-x:auto}}figure{{margin:1rem 0}}\
         svg{{max-width:100%;height:auto}}</style>\n</head>\n<body>\n<h1>cargo xtask bench</h1>\n\
         <pre>{escaped}</pre>\n{figures}</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_text_and_the_drawings_are_not() {
        let page = html("a < b & c", &["<svg></svg>".to_owned()]);
        assert!(page.contains("<pre>a &lt; b &amp; c</pre>"));
        assert!(page.contains("<figure><svg></svg></figure>"));
    }
}
