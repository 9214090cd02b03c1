/// How something is; each has a colour and says so in words as well.
enum StatusLevel: String {
    case plain = ""
    case good
    case warning
    case bad
    /// Nothing to see.
    case muted = "quiet"
}

/// One field of a table.
struct StatusCell {
    let text: String
    /// A second line.
    let note: String?
    /// A constant list of classes.
    let style: String

    /// Words.
    init(_ text: String, note: String? = nil, level: StatusLevel = .plain) {
        self.text = text
        self.note = note
        style = level.rawValue
    }

    /// Sentences, which take the room that they need.
    init(prose text: String, note: String? = nil) {
        self.text = text
        self.note = note
        style = "prose"
    }

    /// An address, which is not broken into lines.
    init(whole text: String) {
        self.text = text
        note = nil
        style = "whole"
    }

    /// A number; zeros and unknown ones stand back.
    init(number text: String, level: StatusLevel = .plain) {
        self.text = text
        note = nil
        let isNothing = level == .plain && (text == "0" || text == StatusFormatter.unknown)
        style = "number " + (isNothing ? StatusLevel.muted : level).rawValue
    }
}

/// The head of a table's column.
struct StatusColumn {
    let text: String
    let style: String

    static func words(_ text: String) -> StatusColumn { StatusColumn(text: text, style: "") }
    static func number(_ text: String) -> StatusColumn { StatusColumn(text: text, style: "number") }
}

struct StatusRow {
    /// What the row is about.
    let name: String
    let note: String?
    let cells: [StatusCell]

    init(_ name: String, note: String? = nil, _ cells: [StatusCell]) {
        self.name = name
        self.note = note
        self.cells = cells
    }
}

struct StatusTable {
    let id: String
    let caption: String
    /// The first is that of the rows' names.
    let columns: [StatusColumn]
    let rows: [StatusRow]
    /// What is said instead of an empty table.
    let empty: String
    let hasRows: Bool

    init(_ id: String, _ caption: String, _ columns: [StatusColumn], _ rows: [StatusRow], empty: String) {
        self.id = id
        self.caption = caption
        self.columns = columns
        self.rows = rows
        self.empty = empty
        hasRows = !rows.isEmpty
    }
}

/// A name and what it is.
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

/// A part of the page with a heading.
struct StatusSection {
    let id: String
    let title: String
    /// Whether it needs the page's whole width.
    let style: String
    let facts: [StatusField]
    let hasFacts: Bool
    /// What was said by something else, line by line.
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
