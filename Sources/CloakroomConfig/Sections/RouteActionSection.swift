import CloakroomCore

extension PathRewrite {
    private enum CookiePaths: String, CaseIterable {
        case rewrite, keep
    }

    /// The keys of a route that change the path which the upstream receives.
    static let keys = ["forwardAs", "stripPrefix", "addPrefix"]

    /// Reads the keys of a route that change the path.
    /// - Parameter path: `nil` if it is invalid.
    /// - Returns: `nil` if the path stays, or a key is invalid.
    static func read(from scope: ConfigScope, path: PathPattern?) -> PathRewrite? {
        let forwardAs = scope.optional("forwardAs", as: .pattern)
        let prefix = { (key: String) -> [PathPattern.Segment] in
            let text = scope.optional(key, as: ValueFormat<String>.path)
            let segments = text.flatMap { try? PathPattern($0) }?.segments.filter { $0 != .literal("") } ?? []
            if let text, segments.isEmpty {
                scope.report("must have a segment, not \"\(text)\"", "leave it out", at: key)
            }
            return segments
        }
        let (removed, added) = (prefix("stripPrefix"), prefix("addPrefix"))
        let cookiePaths = scope.value("cookiePaths", as: ValueFormat<CookiePaths>.choice(), default: .rewrite)
        if cookiePaths == .keep, !keys.contains(where: scope.isSet) {
            let error = ConfigValueError("conflicts with the route: no key of it changes the path", "leave it out")
            scope.report(error, at: "cookiePaths")
        }
        for key in keys.dropFirst() where scope.isSet("forwardAs") && scope.isSet(key) {
            scope.report("conflicts with forwardAs", "keep one of the two", at: key)
        }
        guard let path, let key = keys.first(where: scope.isSet), !keys.contains(where: scope.isInvalid) else {
            return nil
        }
        guard path.segments.starts(with: removed) else {
            let leading = path.segments.prefix { if case .literal(let text) = $0 { !text.isEmpty } else { false } }
            scope.report(
                "must be leading segments of the path, not \"\(PathPattern(segments: removed))\"",
                leading.isEmpty ? "leave it out" : "write \(PathPattern(segments: Array(leading)))", at: "stripPrefix")
            return nil
        }
        let sent = added + path.segments.dropFirst(removed.count)
        return read(
            from: scope, key, path, forwardAs ?? PathPattern(segments: sent.isEmpty ? [.literal("")] : sent),
            keepsCookiePaths: cookiePaths == .keep)
    }

    /// Creates a rewrite, or reports why there is none.
    fileprivate static func read(
        from scope: ConfigScope, _ key: String, _ path: PathPattern, _ pattern: PathPattern,
        keepsCookiePaths: Bool = false
    ) -> PathRewrite? {
        do throws(PathPatternError) {
            return try PathRewrite(from: path, to: pattern, keepsCookiePaths: keepsCookiePaths)
        } catch {
            scope.report(ConfigValueError(pattern: error), at: key)
            return nil
        }
    }
}

extension RedirectTemplate {
    private enum Status: String, CaseIterable {
        case moved = "301", found = "302", seeOther = "303", temporary = "307", permanent = "308"
    }

    private enum Query: String, CaseIterable {
        case keep, drop
    }

    /// `redirect` of a route.
    /// - Parameter path: `nil` if it is invalid.
    init?(from scope: ConfigScope, path: PathPattern?) {
        let target = scope.required("to", as: .redirectTarget)
        let status = scope.value("status", as: ValueFormat<Status>.choice(), default: .permanent)
        let query = scope.value("query", as: ValueFormat<Query>.choice(), default: .keep)
        guard let path, let target, let rewrite = PathRewrite.read(from: scope, "to", path, target.pattern) else {
            return nil
        }
        self.init(rewrite)
        origin = target.origin
        self.status = Int(status.rawValue) ?? 308
        keepsQuery = query == .keep
    }
}

struct RedirectTarget: Sendable {
    /// Empty for the origin of the request.
    let origin: String
    let pattern: PathPattern
}

extension ValueFormat where Value == RedirectTarget {
    /// A path pattern, or one at another origin.
    fileprivate static let redirectTarget = ValueFormat(
        "path pattern, or https:// and a host with a path pattern", render: { $0.origin + $0.pattern.description }
    ) { text throws(ConfigValueError) in
        let scheme = "https://"
        let authority = text.hasPrefix(scheme) ? text.dropFirst(scheme.count).prefix { $0 != "/" } : ""
        try require(
            text.hasPrefix("/") && !text.hasPrefix("//") || !authority.isEmpty,
            "must be a path, or https:// and a host, not \(text.quoted)",
            "write such as /orders/{id} or https://shop.example.com/orders/{id}")
        let path = authority.isEmpty ? text : String(text.dropFirst(scheme.count + authority.count))
        return RedirectTarget(
            origin: authority.isEmpty ? "" : try ValueFormat<String>.origin.parse(scheme + authority),
            pattern: try ValueFormat<PathPattern>.pattern.parse(path.isEmpty ? "/" : path))
    }
}
