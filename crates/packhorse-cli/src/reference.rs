//! The page of all commands and options, compared with what the command says of itself.

use std::path::Path;

use crate::args::Arguments;

/// `tools/cli-reference` writes the page anew.
#[test]
fn the_page_of_commands_and_options_is_what_the_command_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli-reference.md");
    let options = clap_markdown::MarkdownOptions::new()
        .title("Commands and options".into())
        .show_footer(false)
        .show_table_of_contents(true);
    let text = clap_markdown::help_markdown_custom::<Arguments>(&options);
    if std::env::var_os("WRITE_CLI_REFERENCE").is_some() {
        #[expect(clippy::disallowed_methods, reason = "the page is made anew on request")]
        std::fs::write(&page, &text).unwrap();
    }
    let known = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(known == text, "docs/cli-reference.md is not what the command says: run tools/cli-reference");
}
