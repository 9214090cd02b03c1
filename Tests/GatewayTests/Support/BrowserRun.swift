/// What a browser saw while it did as it was told.
struct BrowserRun: Decodable {
    let snapshots: [String: Snapshot]
    /// What the scripts returned, one after the other.
    let values: [String?]
    /// What the browser and the page complained about, violations of the Content-Security-Policy among it.
    let console: [ConsoleLine]

    /// A page at one moment.
    struct Snapshot: Decodable {
        let title: String
        /// What a reader sees.
        let text: String
        /// CSS pixels; larger than ``clientWidth`` if the page can be scrolled sideways.
        let scrollWidth: Double
        let clientWidth: Double
        /// Elements that stand out beyond the right edge, outside of what scrolls for itself; ten at most.
        let beyondRightEdge: [String]
        /// What stands behind the body's text, as `#rrggbb`.
        let background: String
        /// The lowest contrast of any text on the page against what is behind it (WCAG 2.2, section 1.4.3).
        let lowestContrast: Double
        let lowestContrastText: String
        /// How many `script` elements there are.
        let scripts: Int
        let cookies: [Cookie]
    }

    /// A cookie of the page's, without its value.
    struct Cookie: Decodable, Equatable {
        let name: String
        let httpOnly: Bool
        let secure: Bool
        let sameSite: String
    }

    struct ConsoleLine: Decodable {
        /// `SEVERE`, `WARNING`, `INFO`, `DEBUG`.
        let level: String
        /// `console-api`, `security`, `network`, `javascript`…
        let source: String
        let text: String
    }
}
