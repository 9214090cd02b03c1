/// The recorded results of a browser script.
struct BrowserRun: Decodable {
    let snapshots: [String: Snapshot]
    /// The results of the scripts, in their order.
    let values: [String?]
    /// Messages of the browser and the page, with violations of the Content-Security-Policy.
    let console: [ConsoleLine]

    /// The state of a page at one moment.
    struct Snapshot: Decodable {
        let title: String
        /// The visible text.
        let text: String
        /// CSS pixels; larger than ``clientWidth`` if the page scrolls horizontally.
        let scrollWidth: Double
        let clientWidth: Double
        /// Elements beyond the right edge that are not in a scrollable element; at most ten.
        let beyondRightEdge: [String]
        /// The background colour of the body's text, as `#rrggbb`.
        let background: String
        /// The lowest contrast of any text on the page against its background (WCAG 2.2, section 1.4.3).
        let lowestContrast: Double
        let lowestContrastText: String
        /// The number of `script` elements.
        let scripts: Int
        let cookies: [Cookie]
    }

    /// A cookie of the page, without its value.
    struct Cookie: Decodable, Equatable {
        let name: String
        let httpOnly: Bool
        let secure: Bool
        let sameSite: String
        /// Seconds; `nil` for a cookie that the browser deletes when it is closed.
        var lifetime: Double?
    }

    struct ConsoleLine: Decodable {
        /// `SEVERE`, `WARNING`, `INFO`, `DEBUG`.
        let level: String
        /// `console-api`, `security`, `network`, `javascript`…
        let source: String
        let text: String
    }
}
