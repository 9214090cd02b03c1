package import CloakroomCore
import CloakroomWire

extension CommandReport {
    /// `explain METHOD TARGET`: shows how a request would be routed, without sending it.
    /// - Parameters:
    ///   - host: The `Host` of the request; `nil` for the one in the target, if any, or `localhost` if all listeners are
    ///     for development.
    ///   - scan: Lists a folder whose files are served; `nil` if that is not possible.
    package static func explain(
        _ sources: ConfigSources, method: String, target: String, host: String? = nil,
        scan: (FilesConfiguration) -> FileTree? = { _ in nil }
    ) -> CommandReport {
        on(sources) { config in
            var explanation = RequestExplanation(
                configuration: config.configuration, method: method, target: target, host: host)
            if case .permitted(let route) = explanation.result.outcome { explanation.tree = route.files.flatMap(scan) }
            return CommandReport(lines: explanation.lines, document: ExplanationDocument(sources, explanation))
        }
    }
}

/// The routing of one request as text.
struct RequestExplanation {
    var configuration: GatewayConfiguration
    let method: String
    let target: String
    var host: String?
    /// The files of the route; `nil` if they are not known.
    var tree: FileTree?

    /// What the gateway does with the request.
    enum Outcome {
        /// Forwarded, redirected, or for a file.
        case permitted(Route)
        /// The gateway responds itself.
        case local
        case rejected(status: Int)
    }

    var lines: [String] {
        let rows = result.rows
        let request = ["\(method.escaped) \(target.escaped)"]
        return request + Table.lines(rows.map { ["  " + $0.0 + ":", $0.1] })
    }

    /// The outcome, and the reasons and consequences as pairs of a title and a text.
    var result: (outcome: Outcome, rows: [(String, String)]) {
        guard !method.isEmpty, method.utf8.allSatisfy(\.isTokenCharacter) else {
            return rejected(400, "the method is not a token", isCounted: false)
        }
        guard target.utf8.count <= configuration.limits.target else {
            let limit = ByteSize.rendered(configuration.limits.target)
            return rejected(414, "the target is longer than \(limit)", isCounted: false)
        }
        let bytes = Array(target.utf8)
        var scratch: [UInt8] = []
        let parsed: RequestTarget
        do throws(RequestTargetError) {
            parsed = try RequestTarget.parse(bytes.span, scratch: &scratch)
        } catch {
            return rejected(400, error.explanation)
        }
        let table = RouteTable(configuration)
        let isLocal = !configuration.listeners.isEmpty && configuration.listeners.allSatisfy(\.isForDevelopment)
        let named = parsed.authority.map { String(decoding: bytes[$0.start..<$0.end], as: UTF8.self) } ?? host
        let given = named ?? (isLocal ? "localhost" : nil)
        let folded = given.flatMap { HostNames.folded($0) }
        guard given == nil || folded != nil else { return rejected(400, RequestTargetError.authority.explanation) }
        let listeners = configuration.listeners(serving: folded, table.groups)
        guard let group = table.groups.group(of: folded), !listeners.isEmpty else {
            let place = table.groups.group(of: folded) == nil ? "route" : "listener"
            return rejected(421, folded.map { "no \(place) has host \($0)" } ?? "no \(place) serves it without a host")
        }
        let site = table.groups.site(of: group)
        let place = configuration.sites.isEmpty ? [] : [("site", configuration.sites[site].title)]
        guard !parsed.isAsterisk else {
            guard method == "OPTIONS" else { return rejected(400, "* is for OPTIONS only") }
            return (.local, [("response", "local response (OPTIONS *)")] + rates())
        }
        var path = parsed.isPathRewritten ? scratch : Array(bytes[parsed.path.start..<parsed.path.end])
        if path.isEmpty { path = [UInt8(ascii: "/")] }
        let query = String(decoding: bytes[parsed.query.start..<parsed.query.end], as: UTF8.self)
        let withheld = table.withheldMatch(method: Array(method.utf8).span, path: path.span, group: group).map {
            match in
            let reason =
                match.stricter.map { stricter in
                    "\(stricter.name) is stricter\(configuration.reason(stricter, isStricterThan: match.route)),"
                        + " and the path may be one of \(stricter.pattern)"
                }
                ?? "the path leads to its parent for servers that decode it again"
            return "route \(match.route.name) does not serve it: \(reason)"
        }
        let (match, sent) = table.match(method, path, group: group)
        switch match {
        case .notFound:
            return rejected(404, withheld ?? reasonForNothing(at: sent, in: table, group) + routeAtHost(path, table))
        case .methodNotAllowed(let allow):
            // Methods are case-sensitive (RFC 9110 §9.1).
            let other = method.uppercased()
            let isMistyped = method != other && allow.split(separator: ", ").contains(other[...])
            let hint = isMistyped ? "methods are case-sensitive: \(other) is another one" : nil
            let reason = (withheld ?? hint).map { " (\($0))" } ?? ""
            return (.rejected(status: 405), [("response", "405, Allow: \(allow)\(reason)")] + rates())
        case .accountEndpoint(let endpoint):
            guard endpoint.isPresent(configuration.site(site).accounts) else {
                return rejected(404, "site \(place.map { $0.1 }.joined()) has no such endpoint")
            }
            let response = [("response", "local response: \(endpoint.explanation)")]
            return (.local, place + response + (endpoint == .backChannel ? [] : rates()))
        case .route(let index):
            let route = configuration.routes[index]
            let addresses = listeners.map(\.address.description).joined(separator: ", ")
            let serving = listeners.count < configuration.listeners.count ? [("listeners", addresses)] : []
            var own = self
            own.configuration = configuration.site(site)
            let rows = own.rows(for: route, path: sent, query: query)
            let asking = listeners.compactMap { listener in
                listener.forwardAuth.map { "\($0.proxy.rawValue) at \(listener.address)" }
            }
            let isDenied = route.upstream == nil || parsed.isPathRewritten || parsed.authority != nil
            let decided = asking.map { ("decided for", isDenied ? "\($0): 403" : $0) }
            return (.permitted(route), place + serving + decided + rows)
        }
    }

    private func rejected(_ status: Int, _ reason: String, isCounted: Bool = true) -> (Outcome, [(String, String)]) {
        (.rejected(status: status), [("response", "\(status): \(reason)")] + (isCounted ? rates() : []))
    }

    /// A route that serves a path at hosts that it lists, if the request names no host.
    private func routeAtHost(_ path: [UInt8], _ table: RouteTable) -> String {
        guard host == nil, !target.contains("://") else { return "" }
        for group in table.groups.members.indices.dropFirst() {
            guard case .route(let index) = table.match(method, path, group: group).match,
                let host = configuration.routes[index].hosts.first
            else { continue }
            return "; route \(configuration.routes[index].name) serves it at \(host), see --host"
        }
        return ""
    }

    /// The reason why no route serves a path.
    private func reasonForNothing(at path: [UInt8], in table: RouteTable, _ group: Int) -> String {
        if let call = TokenCallPaths(configuration.upstreams).call(at: path.span) {
            let place = "of upstream \(call.upstream) (\(call.kind.rawValue) \(call.path))"
            return call.kind == .user
                ? "user call path \(place), forwarded only by a route that names it"
                : "token call path \(place), never forwarded"
        }
        let text = "no route serves \(String(decoding: path, as: UTF8.self))"
        let below = path + [UInt8(ascii: "/")]
        guard case .route(let index) = table.match(method: Array(method.utf8).span, path: below.span, group: group),
            let base = configuration.routes[index].pattern.base,
            base.segments.count == path.split(separator: UInt8(ascii: "/")).count
        else { return text }
        return "\(text) (route \(configuration.routes[index].name) serves \(base)/ and all paths below it)"
    }

    /// - Parameter path: The path that is sent, or redirected.
    private func rows(for route: Route, path: [UInt8], query: String) -> [(String, String)] {
        let rejection = route.messages[.unauthorized] ?? ProblemCode.unauthorized.defaultDetail
        let access =
            [
                (
                    "route",
                    "\(route.name) (\(route.methods.joined(separator: ",")) \(route.hosts.map { "\($0) " }.joined())\(route.pattern))"
                ),
                (
                    "authorization",
                    route.requiresAuthorization
                        ? "required; \(missingSession(route)) 401 \"\(rejection)\"" : "not required"
                ),
            ] + credentials(of: route) + sessions(of: route) + apps(of: route) + requirements(of: route)
            + rates(of: route) + responseFields(of: route)
        if let redirect = route.redirect {
            let location = redirect.location(path: path, query: Array(query.utf8))
            return access + [("redirects", "\(redirect.status) to \(String(decoding: location, as: UTF8.self))")]
        }
        if let files = route.files {
            return access + [
                ("file", file(files, of: route, Array(path.dropFirst(route.pattern.base?.description.utf8.count ?? 0))))
            ]
        }
        let upstream = configuration.upstreams[route.upstream ?? 0]
        let targets = upstream.targets.map(\.description).joined(separator: ", ")
        if upstream.isExternal {
            return access + [
                ("injects", injected(by: route, upstream).joined(separator: ", ")),
                ("upstream", "\(upstream.name), to which only another proxy forwards; clients get 404"),
            ]
        }
        return access + [
            ("strips", stripped(by: route).joined(separator: ", ")),
            ("injects", injected(by: route, upstream).joined(separator: ", ")),
            ("upstream", "\(upstream.name) at \(targets)"),
            ("sends", "\(method) \(String(decoding: path, as: UTF8.self))\(query)"),
            ("host", upstream.preserveHost ? "the client's" : "the upstream's"),
        ] + (route.rewrite.map { [("rewrites back", $0.explanation)] } ?? []) + streams(of: route)
            + UpstreamExplanation(upstream: upstream, route: route, method: method).rows
    }

    /// The fields that change in responses; no row without one.
    private func responseFields(of route: Route) -> [(String, String)] {
        let texts = configuration.responseChanges(of: route).map { change in
            "\(change.kind.rawValue) \(change.name)" + (change.kind == .remove ? "" : ": \(change.value)")
        }
        return texts.isEmpty ? [] : [("fields", (texts.joined(separator: ", ")).escaped)]
    }

    /// The file that a request gets, or why none.
    /// - Parameter path: The path below the root.
    private func file(_ files: FilesConfiguration, of route: Route, _ path: [UInt8]) -> String {
        guard let tree else { return "of \(files.root), which was not read" }
        if let entry = tree[path] {
            let sizes = entry.variants.map { "\($0.coding.rawValue) \($0.size) bytes" }.joined(separator: ", ")
            let place = entry.variants[0].bytes == nil ? "on disk" : "in memory"
            return "\(entry.variants[0].content.path) (\(entry.type); \(sizes); \(place);"
                + " \(entry.cacheControl(isPrivate: route.usesSession)))"
        }
        if tree.isFolder(path) { return "308 to the path with a slash at its end" }
        let reason = "none at \(files.root)\(String(decoding: path, as: UTF8.self)): 404"
        guard let fallback = files.fallback, tree.fallback != nil, !files.isImmutable(path) else { return reason }
        return "\(reason); navigations get \(fallback)"
    }

    /// The limits of WebSockets and event streams that the route has of its own.
    private func streams(of route: Route) -> [(String, String)] {
        let stream = route.stream
        var texts: [String] = []
        if stream.lifetime > .zero { texts.append("at most \(ValueFormat<Duration>.rendered(stream.lifetime)) ± 10 %") }
        if let idle = stream.idle { texts.append("at most \(ValueFormat<Duration>.rendered(idle)) without data") }
        if stream.message > 0 { texts.append("messages of at most \(ByteSize.rendered(stream.message))") }
        if !stream.origins.isEmpty { texts.append("WebSockets of \(stream.origins.joined(separator: ", ")) only") }
        return texts.isEmpty ? [] : [("streams", texts.joined(separator: "; "))]
    }

    private func missingSession(_ route: Route) -> String {
        guard route.onMissingSession == .login, method == "GET" else { return "without a session" }
        let accounts = configuration.accounts
        let place = accounts.usesSignInPage ? "on the sign-in page" : "at \(configuration.providers.first?.name ?? "")"
        return "without a session a navigation signs in \(place), all else gets"
    }

    /// The credentials of the route; no row for sessions.
    private func credentials(of route: Route) -> [(String, String)] {
        let credentials = route.credentials
        guard credentials != .session else { return [] }
        var texts = credentials == .pass ? ["sent unverified"] : []
        if credentials.acceptsTokens {
            let names = configuration.tokenSources(of: route).map { name in
                let binding = configuration.providers.first { $0.name == name }?.accessTokens?.dpop ?? .off
                return binding == .off ? name : "\(name) (DPoP \(binding.rawValue))"
            }
            texts.append("access tokens of \(names.joined(separator: ", "))")
        }
        if credentials.contains(.basic), let upstream = configuration.accounts.upstream {
            texts.append("a name and a password (Basic), to sign in at \(configuration.upstreams[upstream].name)")
        }
        let others = credentials.contains(.session) ? "; without the field the session" : ""
        return [("credentials", "Authorization: \(texts.joined(separator: ", or "))\(others)")]
    }

    /// Whose sessions may use the route, and which token the upstream receives of them; no row if there is one source
    /// and the upstream is that.
    private func sessions(of route: Route) -> [(String, String)] {
        let accounts = configuration.accounts
        guard route.usesSession,
            !configuration.providers.isEmpty || route.upstream.map({ $0 != accounts.upstream }) == true
        else { return [] }
        let isBearer = route.inject.contains(.bearer)
        let texts = configuration.sources(of: route).map { source in
            let token = source.exchange == nil ? " (its own token)" : " (an exchanged token)"
            return (source.issuer == nil ? "" : "upstream ") + source.name + (isBearer ? token : "")
        }
        let others = route.requiresAuthorization ? "others get 403 wrong_identity" : "others count as none"
        return [("sessions", "of \(texts.joined(separator: ", ")); \(others)")]
    }

    /// The apps whose sessions may use the route, and whether these are bound to a device; no row without apps.
    private func apps(of route: Route) -> [(String, String)] {
        let sources = configuration.sources(of: route)
        let apps = configuration.accounts.apps.filter { app in
            sources.contains { $0.issuer != nil || app.identities.isEmpty || app.identities.contains($0.name) }
        }
        guard route.usesSession, route.credentials.contains(.session), !apps.isEmpty else { return [] }
        let mode = configuration.session.device.mode
        return [("apps", apps.map { "\($0.name) (bound: \(($0.device ?? mode).rawValue))" }.joined(separator: ", "))]
    }

    /// What is required of a session, one row for each part.
    private func requirements(of route: Route) -> [(String, String)] {
        let device = route.require.device ? [("requires", "a bound session; otherwise 403 device_required")] : []
        let claims = device + route.require.claims.map { ("requires", "\($0.summary); otherwise 403 missing_claim") }
        let parts = route.require.stepUpTexts
        let alternatives = route.require.anyOf
        let responses =
            !alternatives.contains(where: \.requiresStepUp)
            ? "403 missing_claim"
            : alternatives.contains(where: \.claims.isEmpty) ? "401 step_up" : "403 missing_claim or 401 step_up"
        return claims + (parts.isEmpty ? [] : [("requires", "\(parts.joined(separator: ", ")); otherwise 401 step_up")])
            + route.require.alternativeTexts.map { ("requires", "\($0); otherwise \(responses)") }
    }

    /// The rate limits that count the request, one row for each.
    private func rates(of route: Route? = nil) -> [(String, String)] {
        configuration.rateLimits(of: route).map { limit in
            let claims = limit.when.map { "; only sessions with \($0.summary)" }
            let beyond = limit.isEnforced ? "beyond it 429 rate_limited" : "not enforced: beyond it only counted"
            return ("rate", "\(limit.summary)\(claims.joined()); \(beyond)")
        }
    }

    /// The request fields that are not forwarded.
    private func stripped(by route: Route) -> [String] {
        let tokens = Set(configuration.upstreams.flatMap(\.tokenHeaders)).sorted()
        let forwarded = "Forwarded and X-Forwarded-*"
        let claims = Set(configuration.claimHeaderNames).sorted()
        let set = Set(configuration.requestFieldNames + route.requestFields.map(\.name)).sorted()
        let authorization = route.credentials == .pass ? [] : ["Authorization"]
        return ["hop-by-hop fields"] + authorization + tokens + claims + set + [
            "cookie \(configuration.session.cookie.name)"
        ]
            + [
                configuration.trustedProxies.isEmpty ? forwarded : forwarded + " unless from a trusted peer",
                claimFields(route),
            ]
    }

    private func claimFields(_ route: Route) -> String {
        let exceptions = route.passFields.isEmpty ? "" : " except \(route.passFields.joined(separator: " and "))"
        return "fields that name another method, path, address or user\(exceptions)"
    }

    private func injected(by route: Route, _ upstream: UpstreamConfiguration) -> [String] {
        var fields: [String] = []
        if route.inject.contains(.apiToken), let token = upstream.apiToken {
            fields.append("\(token.header): \(token.value)")
        }
        if route.inject.contains(.bearer) {
            let condition = route.requiresAuthorization ? "" : " where there is a session"
            fields.append("\(upstream.bearer.header): \(upstream.bearer.prefix)<redacted>\(condition)")
        }
        if route.usesSession {
            fields += upstream.claimHeaders.map { "\($0.name): claim \($0.claim.description.escaped)" }
            if let assertion = upstream.assertion {
                let lifetime = ValueFormat<Duration>.rendered(assertion.lifetime)
                fields.append(
                    "\(assertion.header): signed assertion for \(assertion.audience.escaped), valid for \(lifetime)")
            }
        }
        if let prefix = route.rewrite?.removedPrefix, !prefix.isEmpty {
            fields.append("X-Forwarded-Prefix: " + String(decoding: prefix, as: UTF8.self))
        }
        for field in route.requestFields where field.kind == .set { fields.append("\(field.name): \(field.value)") }
        return fields.isEmpty ? ["nothing"] : fields
    }
}

extension AccountEndpoint {
    fileprivate var explanation: String {
        switch self {
        case .signIn: "sign in"
        case .currentSession: "show the current session"
        case .signOut: "sign out"
        case .listSessions: "list the user's sessions"
        case .endOtherSessions: "end the user's other sessions"
        case .endSession: "end one of the user's sessions"
        case .page: "show the page to sign in with"
        case .pageSignIn: "sign in with the form of the page"
        case .login: "begin a login at a provider"
        case .callback: "complete a login"
        case .logout: "continue a sign-out at the provider"
        case .backChannel: "end the sessions that a provider reports as ended"
        case .app: "begin a login of a native app"
        case .appCode: "complete a login of a native app"
        case .keys: "show the keys that verify assertions"
        case .device: "bind the session to the key of its device, or refresh the proof"
        }
    }
}

extension RequestTargetError {
    fileprivate var explanation: String {
        switch self {
        case .malformed: "the target must be a path, an http URL or *"
        case .authority: "the target names no valid host and port"
        case .dotSegment: "the path holds a dot segment or an encoded dot"
        case .emptySegment: "the path holds two slashes in a row"
        case .fragment: "the target holds a # or %23"
        case .separator: "the path holds a backslash, a semicolon, a NUL or an encoded slash"
        case .percentEncoding: "the path holds a percent sign without two hexadecimal digits"
        case .character: "the target holds a space, a control character, one of \"<>^`{}, or one that is not ASCII"
        }
    }
}

extension PathRewrite {
    /// What changes back in responses.
    fileprivate var explanation: String {
        guard let (received, made) = prefixes else { return "nothing: a segment within the path changes" }
        let (from, to) = (String(decoding: made, as: UTF8.self), String(decoding: received, as: UTF8.self))
        return "\(from)/ to \(to)/ in references" + (keepsCookiePaths ? "" : " and cookie paths")
    }
}
