/// The files of a route: a folder, and how its files are served.
public struct FilesConfiguration: Sendable, Equatable {
    /// The folder. Each scan resolves it anew, so that it may be a symbolic link.
    public var root = ""
    /// The name of the file that is served for its folder.
    public var index = "index.html"
    /// The path below ``root`` of the file that navigations without a file get; `nil` for none.
    public var fallback: String?
    /// The paths below ``root`` of files that never change: clients keep them for a year, and they have no fallback.
    public var immutable: [PathPattern] = []
    /// Content codings.
    public var codings = Codings()
    /// Which files are served, by their names.
    public var names = Names()
    /// When the folder is scanned, and its limits.
    public var scan = Scan()

    /// Creates the defaults, without the required root.
    public init() {}

    /// Content codings (RFC 9110 §8.4.1).
    public struct Codings: Sendable, Equatable {
        /// The codings of files next to a file, which are its content encoded: `.br`, `.zst` and `.gz`.
        public var siblings: [ContentCoding] = [.br, .zstd, .gzip]
        /// Whether text files of 1 KiB to 4 MiB without such a file are compressed when they are scanned.
        public var gzip = true
    }

    /// Which files are served, by their names.
    public struct Names: Sendable, Equatable {
        /// How symbolic links are treated.
        public enum Links: String, Sendable, CaseIterable {
            /// They are skipped.
            case none
            /// They are followed if they lead to a file or folder within the root.
            case inside
        }

        /// Media types by the ending of the name, in lower case and without its dot.
        public var types: [String: String] = [:]
        /// Endings of names that are not served, in lower case and with their dot.
        public var exclude: [String] = []
        /// Names that begin with a dot and are served nevertheless.
        public var dotfiles = [".well-known"]
        /// Symbolic links below the root.
        public var links = Links.none
    }

    /// When the folder is scanned, and its limits.
    public struct Scan: Sendable, Equatable {
        /// The interval, up to 1 hour; zero is only when the configuration is loaded.
        public var every: Duration = .seconds(2)
        /// The maximum size of the files in memory in bytes, 0...16 GiB; the smallest files first.
        public var memory = 67_108_864
        /// The maximum number of names in the folder and those below it, 1...200,000.
        public var files = 20_000
    }

    /// Whether a path below the root is one of ``immutable``.
    package func isImmutable(_ path: [UInt8]) -> Bool {
        guard !immutable.isEmpty else { return false }
        let segments = path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let pattern = PathPattern(segments: segments.map { .literal(String(decoding: $0, as: UTF8.self)) })
        return immutable.contains { $0.covers(pattern) }
    }
}

/// A content coding of a file (RFC 9110 §8.4.1); ``identity`` is none.
public enum ContentCoding: String, Sendable, CaseIterable {
    case identity, br, zstd, gzip

    /// The ending of names of files that are encoded with it; empty for none.
    package var ending: String {
        switch self {
        case .identity: ""
        case .br: ".br"
        case .zstd: ".zst"
        case .gzip: ".gz"
        }
    }
}
