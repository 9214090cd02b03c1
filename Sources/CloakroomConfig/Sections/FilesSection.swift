import CloakroomCore

extension FilesConfiguration: ConfigSection {
    /// `files` of a route.
    static let keys: [Key<Self>] = [
        Key { if let root = $0.required("root", as: .text) { $1.root = root } },
        Key("index", \.index, .name),
        Key(optional: "fallback", \.fallback, .fileBelowRoot),
        Key(list: "immutable", \.immutable, .pattern),
        Key(section: "codings", \.codings),
        Key(section: "names", \.names),
        Key(section: "scan", \.scan),
    ]
}

extension FilesConfiguration.Codings: ConfigSection {
    /// `files.codings` of a route.
    static let keys: [Key<Self>] = [
        Key {
            $1.siblings = $0.list(
                "siblings", as: .choice(of: [.br, .zstd, .gzip]), default: $1.siblings, allowsEmpty: true)
        },
        Key("gzip", \.gzip, .flag),
    ]
}

extension FilesConfiguration.Names: ConfigSection {
    /// `files.names` of a route.
    static let keys: [Key<Self>] = [
        Key {
            let types = $0.entries("types") { $0.optional($1, as: .mediaType) }
            for type in types { $1.types[type.name.lowercased()] = type.value }
        },
        Key(list: "exclude", \.exclude, .ending),
        Key { $1.dotfiles = $0.list("dotfiles", as: .dotfile, default: $1.dotfiles, allowsEmpty: true) },
        Key("links", \.links, .choice()),
    ]
}

extension FilesConfiguration.Scan: ConfigSection {
    /// `files.scan` of a route.
    static let keys: [Key<Self>] = [
        Key("every", \.every, .duration(.zero ... .seconds(3_600))),
        Key("memory", \.memory, .size(0...17_179_869_184)),
        Key("files", \.files, .integer(1...200_000)),
    ]
}

extension RouteSection {
    /// Checks keys that a route which serves files has with other values than others.
    func checkFiles(_ isRedirect: Bool) {
        if isRedirect {
            scope.report("conflicts with redirect", "remove one of the two", at: "files")
        }
        for (index, method) in (methods ?? []).enumerated() where method != "GET" && method != "HEAD" {
            scope.report(
                "\(method) conflicts with files, which are only read", "leave it out", at: "methods", item: index)
        }
        guard let pattern else { return }
        let isFolder = pattern.segments.allSatisfy { if case .parameter = $0 { false } else { true } }
        if !isFolder || pattern.segments.last != .wildcard {
            scope.report(
                "must be a path with * at its end for files, not \(pattern)", "write such as /app/*", at: "path")
        }
    }
}

extension ValueFormat where Value == String {
    /// Text that meets a condition.
    private static func text(
        _ expectation: String, such example: String, _ isValid: @escaping @Sendable (String) -> Bool
    ) -> Self {
        text(expectation, mustBe: expectation, "write such as \(example)", isValid)
    }

    fileprivate static let fileBelowRoot = text("the path of a file below root", such: "index.html") {
        (try? ValueFormat<String>.path.parse("/" + $0)) != nil && !$0.hasSuffix("/")
    }

    fileprivate static let ending = text("an ending in lower case with its dot", such: ".map") {
        $0.hasPrefix(".") && $0.utf8.count > 1 && !$0.contains("/") && $0 == $0.lowercased()
    }

    fileprivate static let dotfile = text("a name that begins with a dot", such: ".well-known") {
        $0.hasPrefix(".") && $0 != "." && $0 != ".." && !$0.contains("/")
    }

    /// A media type, possibly with parameters (RFC 9110 §8.3.1).
    fileprivate static let mediaType = text("a media type", such: "text/plain") {
        let parts = $0.prefix { $0 != ";" }.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy(\.isTokenCharacter) }
            && $0.utf8.allSatisfy { (0x20...0x7e).contains($0) }
    }
}
