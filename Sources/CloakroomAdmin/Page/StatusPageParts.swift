import Mustache

/// The level of a value; each has a colour and a textual form.
enum StatusLevel: String {
    case plain = ""
    case good
    case warning
    case bad
    /// De-emphasized.
    case muted = "quiet"
}

/// One field of a table.
struct StatusCell {
    let text: String
    /// A second line.
    let note: String?
    /// A constant list of classes.
    let style: String
    /// The text of its column, which a narrow screen shows next to it.
    fileprivate(set) var label = ""

    /// A cell with short text.
    init(_ text: String, note: String? = nil, level: StatusLevel = .plain) {
        self.text = text
        self.note = note
        style = level.rawValue
    }

    /// A cell with sentences, which may wrap.
    init(prose text: String, note: String? = nil) {
        self.text = text
        self.note = note
        style = "prose"
    }

    /// A cell with an address, which does not wrap.
    init(whole text: String) {
        self.text = text
        note = nil
        style = "whole"
    }

    /// A cell with a number; zero and unknown values are de-emphasized.
    init(number text: String, level: StatusLevel = .plain) {
        self.text = text
        note = nil
        let isNothing = level == .plain && (text == "0" || text == StatusFormatter.unknown)
        style = "number " + (isNothing ? StatusLevel.muted : level).rawValue
    }
}

/// A column header.
struct StatusColumn {
    let text: String
    let style: String
    /// Sorts by this column; `nil` if the table cannot be sorted by it.
    private(set) var link: String?
    /// The attribute `aria-sort`: `ascending` or `descending` if the table is sorted by this column.
    private(set) var sort: String?

    static func words(_ text: String) -> StatusColumn { StatusColumn(text: text, style: "") }
    static func number(_ text: String) -> StatusColumn { StatusColumn(text: text, style: "number") }

    /// The same with a link that sorts. Names ascend first, numbers descend.
    func sorting(_ link: String, isSelected: Bool, isReversed: Bool) -> StatusColumn {
        var column = self
        column.link = link
        if isSelected { column.sort = (style == "number") == isReversed ? "ascending" : "descending" }
        return column
    }
}

struct StatusRow {
    /// The subject of the row.
    let name: String
    let note: String?
    /// The page of the subject.
    let link: String?
    fileprivate(set) var cells: [StatusCell]

    init(_ name: String, note: String? = nil, link: String? = nil, _ cells: [StatusCell]) {
        self.name = name
        self.note = note
        self.link = link
        self.cells = cells
    }
}

/// A link to the same page with another choice.
struct StatusLink {
    let text: String
    let href: String
    let isCurrent: Bool

    init(_ text: String, _ href: String, isCurrent: Bool = false) {
        self.text = text
        self.href = href
        self.isCurrent = isCurrent
    }
}

struct StatusTable {
    let id: String
    let caption: String
    /// The first column is that of the row names.
    let columns: [StatusColumn]
    let rows: [StatusRow]
    /// The text shown instead of an empty table.
    let empty: String
    let hasRows: Bool
    /// Links that show some of the rows.
    let filters: [StatusLink]
    let hasFilters: Bool
    /// `sortable` if columns have links.
    let style: String

    init(
        _ id: String, _ caption: String, _ columns: [StatusColumn], _ rows: [StatusRow], filters: [StatusLink] = [],
        empty: String
    ) {
        self.id = id
        self.caption = caption
        self.columns = columns
        self.rows = rows.map { row in
            var row = row
            for (index, column) in zip(row.cells.indices, columns.dropFirst()) { row.cells[index].label = column.text }
            return row
        }
        self.empty = empty
        hasRows = !rows.isEmpty
        self.filters = filters
        hasFilters = !filters.isEmpty
        style = columns.contains { $0.link != nil } ? "sortable" : ""
    }
}

/// A name with its value.
struct StatusField {
    let name: String
    let value: String
    let note: String?
    let style: String

    init(_ name: String, _ value: String, note: String? = nil, level: StatusLevel = .plain) {
        self.name = name
        self.value = value
        self.note = note
        style = level.rawValue
    }
}

/// A section of the page with a heading.
struct StatusSection {
    let id: String
    let title: String
    /// Whether it spans the width of the page.
    let style: String
    let facts: [StatusField]
    let hasFacts: Bool
    /// Messages from other components, one per line.
    let problems: [String]
    let hasProblems: Bool
    let tables: [StatusTable]

    init(
        _ id: String, _ title: String, isWide: Bool = false, facts: [StatusField] = [], problems: [String] = [],
        tables: [StatusTable] = []
    ) {
        self.id = id
        self.title = title
        style = isWide ? "wide" : ""
        self.facts = facts
        hasFacts = !facts.isEmpty
        self.problems = problems
        hasProblems = !problems.isEmpty
        self.tables = tables
    }
}

/// Escapes template values for HTML, in text and in quoted attributes.
///
/// The escaping of the library works on grapheme clusters, in which a quotation mark with a combining accent is not a
/// quotation mark. Browsers work on code points and would end the attribute there.
struct HTMLEscaping: MustacheContentType {
    /// The name for `CONTENT_TYPE` in templates; registered by ``register()``.
    static let name = "CLOAKROOM_HTML"

    static func register() {
        MustacheContentTypes.register(HTMLEscaping(), named: name)
    }

    func escapeText(_ text: String) -> String {
        var result = ""
        result.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "&": result += "&amp;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\n": result += "\n"
            default: result.unicodeScalars.append(Self.isReadable(scalar) ? scalar : "\u{FFFD}")
            }
        }
        return result
    }

    /// Control characters and bidirectional controls, which could disguise a line.
    private static func isReadable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x200E...0x200F, 0x202A...0x202E, 0x2066...0x2069: false
        default: true
        }
    }
}
