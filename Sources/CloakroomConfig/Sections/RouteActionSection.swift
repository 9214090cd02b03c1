import CloakroomCore

/// The keys of a route that change the path which the upstream receives.
struct RouteRewriteSection {
    /// The keys that change the path.
    static let keys = ["forwardAs", "stripPrefix", "addPrefix", "cookiePaths"]

    private enum CookiePaths: String, CaseIterable {
        case rewrite, keep
    }

    /// `nil` if the path is not changed, or the keys are invalid.
    let rewrite: PathRewrite?

    /// - Parameter path: `nil` if it is invalid.
    init(from scope: ConfigScope, path: PathPattern?) {
        let forwardAs = scope.optional("forwardAs", as: .pattern)
        let strip = scope.optional("stripPrefix", as: .prefix)
        let add = scope.optional("addPrefix", as: .prefix)
        let cookiePaths = scope.value("cookiePaths", as: ValueFormat<CookiePaths>.choice(), default: .rewrite)
        let key = Self.keys.first { $0 != "cookiePaths" && scope.isSet($0) }
        if key == nil, scope.isSet("cookiePaths"), !scope.isInvalid("cookiePaths") {
            scope.report(
                ConfigValueError("requires forwardAs, stripPrefix or addPrefix", "leave it out"), at: "cookiePaths")
        }
        for other in ["stripPrefix", "addPrefix"] where scope.isSet("forwardAs") && scope.isSet(other) {
            scope.report(ConfigValueError("conflicts with forwardAs", "keep one of the two"), at: other)
        }
        rewrite = path.flatMap { path in
            guard let key, !Self.keys.contains(where: scope.isInvalid),
                let sent = forwardAs ?? Self.sent(path, strip, add, scope)
            else { return nil }
            guard sent != path else {
                scope.report(ConfigValueError("must change the path", "leave it out"), at: key)
                return nil
            }
            var rewrite = PathRewrite(from: path, to: sent, reporting: scope, at: key)
            rewrite?.rewritesCookiePaths = cookiePaths == .rewrite
            return rewrite
        }
    }

    private static func sent(
        _ path: PathPattern, _ strip: PathPattern?, _ add: PathPattern?, _ scope: ConfigScope
    ) -> PathPattern? {
        let removed = strip?.segments ?? []
        guard path.segments.starts(with: removed) else {
            let literals = path.segments.prefix { if case .literal(let text) = $0 { !text.isEmpty } else { false } }
            let written = DiagnosticText.quoted(strip?.description ?? "")
            scope.report(
                ConfigValueError(
                    "must be leading segments of the path, not \(written)",
                    literals.isEmpty ? "leave it out" : "write \(PathPattern(segments: Array(literals)))"),
                at: "stripPrefix")
            return nil
        }
        let sent = (add?.segments ?? []) + path.segments.dropFirst(removed.count)
        return PathPattern(segments: sent.isEmpty ? [.literal("")] : sent)
    }
}

extension PathRewrite {
    /// Creates a rewrite, or reports why there is none.
    fileprivate init?(from path: PathPattern, to pattern: PathPattern, reporting scope: ConfigScope, at key: String) {
        do throws(PathRewriteError) {
            try self.init(from: path, to: pattern)
        } catch {
            switch error {
            case .unknownName(let name):
                let names = path.segments.compactMap { if case .parameter(let name) = $0 { "{\(name)}" } else { nil } }
                scope.report(
                    ConfigValueError(
                        "must use names of the path: {\(name)} is not in \(path)",
                        names.isEmpty ? "write a literal" : "write \(names.joined(separator: " or "))"), at: key)
            case .wildcard:
                scope.report(
                    ConfigValueError("must not end with *: \(path) has no *", "leave it out, or write one in path"),
                    at: key)
            }
            return nil
        }
    }
}

extension RedirectTemplate {
    private enum Query: String, CaseIterable {
        case keep, drop
    }

    /// `redirect` of a route.
    /// - Parameter path: `nil` if it is invalid.
    init?(from scope: ConfigScope, path: PathPattern?) {
        let target = scope.required("to", as: .redirectTarget)
        let status = scope.value("status", as: .redirectStatus, default: 308)
        let query = scope.value("query", as: ValueFormat<Query>.choice(), default: .keep)
        guard let path, let target,
            let rewrite = PathRewrite(from: path, to: target.pattern, reporting: scope, at: "to")
        else { return nil }
        self.init(origin: target.origin, rewrite: rewrite, status: status, keepsQuery: query == .keep)
    }
}

/// The target of a redirect.
struct RedirectTarget: Sendable, Equatable {
    /// Empty for the origin of the request.
    var origin = ""
    let pattern: PathPattern
}

extension ValueFormat where Value == RedirectTarget {
    /// A path pattern, or one at another origin.
    fileprivate static let redirectTarget = ValueFormat(
        "path pattern, or https:// and a host with a path pattern",
        parse: { text throws(ConfigValueError) in
            if text.hasPrefix("/"), !text.hasPrefix("//") {
                return RedirectTarget(pattern: try ValueFormat<PathPattern>.pattern.parse(text))
            }
            guard text.hasPrefix("https://") else {
                throw ConfigValueError(
                    "must be a path, or https:// and a host, not \(DiagnosticText.quoted(text))",
                    "write such as /orders/{id} or https://shop.example.com/orders/{id}")
            }
            let authority = text.dropFirst("https://".count).prefix { $0 != "/" }
            let origin = try ValueFormat<String>.origin.parse("https://" + authority)
            let path = text.dropFirst("https://".count + authority.count)
            return RedirectTarget(
                origin: origin, pattern: try ValueFormat<PathPattern>.pattern.parse(path.isEmpty ? "/" : String(path)))
        }, render: { $0.origin + $0.pattern.description })
}

extension ValueFormat where Value == Int {
    /// A status of a redirect that clients follow.
    fileprivate static let redirectStatus = ValueFormat(
        RedirectTemplate.statuses.map { "`\($0)`" }.joined(separator: ", "),
        parse: { text throws(ConfigValueError) in
            guard let status = Int(text), RedirectTemplate.statuses.contains(status) else {
                throw ConfigValueError(
                    "must be 301, 302, 303, 307 or 308, not \(DiagnosticText.quoted(text))", "write 308")
            }
            return status
        }, render: { String($0) })
}

extension ValueFormat where Value == PathPattern {
    /// Literal segments without a slash at the end.
    fileprivate static let prefix = ValueFormat(
        "path without names, `*` and a slash at the end",
        parse: { text throws(ConfigValueError) in
            let pattern = try ValueFormat<PathPattern>.pattern.parse(text)
            guard !pattern.isWide, pattern.segments.last != .literal("") else {
                throw ConfigValueError(
                    "must be literal segments without a slash at the end, not \(DiagnosticText.quoted(text))",
                    "write such as /api")
            }
            return pattern
        }, render: { $0.description })
}
