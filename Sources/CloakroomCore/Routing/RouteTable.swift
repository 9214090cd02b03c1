/// Selects the route of a request: a compiled matcher over the bytes of method and path.
///
/// Segments are the edges of a tree, and all edges are in one hash table, so the cost of a match depends on the number
/// of segments of the path and not on the number of routes. If several routes match, the most specific one wins: a
/// literal before a parameter, a parameter before a wildcard, from left to right. Two routes of which neither is more
/// specific are a conflict, which ``conflicts(in:accounts:)`` reports; the order of the routes never decides.
///
/// A route with a parameter or wildcard does not serve what a stricter route may be meant to decide about: a path that an
/// upstream may treat as one of that route (``LenientPath``), or a path of that route with a method that it does not
/// list. A second tree has the patterns of all routes in their lenient form. If it has a leaf with a stricter route
/// before that of the matched route, the match is withheld.
///
/// Folder `Routing/`: decides which route serves a request, in which form its path is forwarded, and with
/// ``AuthDecision`` whether it may be forwarded and what is injected.
public struct RouteTable: Sendable {
    /// The result of matching a request.
    public enum Match: Sendable, Equatable {
        /// The route with this index.
        case route(Int)
        /// One of the gateway's own endpoints.
        case accountEndpoint(AccountEndpoint)
        /// No route or endpoint has this path.
        case notFound
        /// The path exists for other methods: the value for `Allow` (RFC 9110 §10.2.1).
        case methodNotAllowed(allow: String)
    }

    /// The routes in the given order.
    public let routes: [Route]
    /// The routes of each host.
    package let groups: RouteGroups

    private struct Node {
        var parameter: Int32 = -1
        /// Index of the leaf for a path that ends here.
        var leaf: Int32 = -1
        /// Index of the leaf for any path that has a slash after this node, whatever follows the slash.
        var restLeaf: Int32 = -1
    }

    /// The target for each method: a route's index, or one of the codes below.
    private struct Leaf {
        var targets: [Int32]
        /// Whether a path of this leaf may be the path of a token call, so that the path has to be compared.
        var mayMeetTokenCall = false
        /// In the lenient tree, for each method: the rules of the leaf's routes with the method, or of all its routes if
        /// none of them has it.
        var rules: [UInt64] = []
    }

    private static let unassigned: Int32 = -1
    private static let reserved: Int32 = -2
    /// The path belongs to the gateway, but none of its endpoints uses the method.
    private static let methodNotAllowedCode: Int32 = -3
    /// The code of the first own endpoint; further ones count down from here.
    private static let firstAccountEndpoint: Int32 = -4
    private static let accountEndpoints = AccountEndpoint.allCases

    private var nodes: [Node] = [Node()]
    private var leaves: [Leaf] = []
    private var edges: SegmentEdgeTable
    private var methods: MethodTable
    private let tokenCalls: TokenCallPaths
    private let strictness: [RouteStrictness]
    /// For each route that rewrites paths, whether one that it makes may be that of a token call and has to be compared.
    private let rewrites: [(path: PathRewrite, mayMeetTokenCall: Bool)?]
    /// The nodes at which the trees of each group begin.
    private var roots: [(exact: Int, lenient: Int)] = []
    /// For each group and each route of it, the index of the route's leaf in the lenient tree.
    private var lenientLeaves: [Int32] = []

    /// Compiles the routes of a configuration and the gateway's own endpoints. If routes conflict, an unspecified one
    /// of them is used; check for conflicts before.
    public init(_ configuration: GatewayConfiguration) {
        let (routes, accounts) = (configuration.routes, configuration.accounts)
        self.routes = routes
        groups = RouteGroups(configuration)
        tokenCalls = TokenCallPaths(configuration.upstreams)
        let calls = tokenCalls
        rewrites = routes.map { $0.rewrite.map { (path: $0, mayMeetTokenCall: calls.mayMeet($0.pattern)) } }
        strictness = RouteStrictness.compare(configuration)
        self.methods = MethodTable(routes.flatMap(\.methods))
        let edges = groups.members.joined().reduce(0) { $0 + 2 * routes[$1].pattern.segments.count + 1 }
        self.edges = SegmentEdgeTable(capacity: edges + groups.members.count * (8 + accounts.prefix.utf8.count))
        let isChecked = strictness.contains(where: \.isChecked)
        for members in groups.members {
            // The first tree begins at the first node.
            if !roots.isEmpty { nodes.append(Node()) }
            let root = nodes.count - 1
            roots.append((root, 0))
            for index in members {
                let route = routes[index]
                for method in Self.served(by: route) {
                    set(target: Int32(index), for: method, at: route.pattern.segments, from: root)
                }
                // Nothing is forwarded for files: a page of an app may have the path of a call.
                guard route.files == nil, tokenCalls.mayMeet(route.pattern) else { continue }
                leaves[leafIndex(for: route.pattern.segments, from: root)].mayMeetTokenCall = true
            }
            if isChecked { addLenientTree(of: members) }
            if accounts.isEnabled { addAccountEndpoints(accounts, from: root) }
        }
    }

    /// Matches a request.
    public func match(method: Span<UInt8>, path: Span<UInt8>, group: Int = 0) -> Match {
        var (scratch, sent): ([UInt8], [UInt8]) = ([], [])
        return match(method: method, path: path, group: group, scratch: &scratch, sent: &sent)
    }

    /// Matches a request.
    /// - Parameters:
    ///   - method: The method of the request.
    ///   - path: The path in the normal form of ``RequestTarget``, without the query.
    ///   - group: The group of the host in ``groups``; without hosts there is only the first.
    ///   - scratch: Receives the lenient form of a path that has to be read leniently.
    ///   - sent: Receives the path that is sent to the upstream, if the route rewrites; otherwise it does not change. The
    ///     result is ``Match/notFound`` if it is the path of a token call of any upstream.
    public func match(
        method: Span<UInt8>, path: Span<UInt8>, group: Int = 0, scratch: inout [UInt8], sent: inout [UInt8]
    ) -> Match {
        guard path.count > 0, path[0] == UInt8(ascii: "/") else { return .notFound }
        var allowed: UInt64 = 0
        let method = methods.index(of: method)
        var target = find(method, in: path, from: 1, at: roots[group].exact, allowed: &allowed)
        // The response is that of a path or method without a route.
        if target >= 0, strictness[Int(target)].isChecked, withheld(target, method, path, group, &scratch) != nil {
            target = Self.unassigned
        }
        switch target {
        case 0...:
            if let rewrite = rewrites[Int(target)] {
                if !sent.isEmpty { sent.removeAll(keepingCapacity: true) }
                rewrite.path.append(path, to: &sent)
                if rewrite.mayMeetTokenCall, tokenCalls.contains(sent.span) { return .notFound }
            }
            return .route(Int(target))
        case Self.unassigned, Self.methodNotAllowedCode:
            return allowed == 0 ? .notFound : .methodNotAllowed(allow: methods.list(allowed))
        case Self.reserved: return .notFound
        default: return .accountEndpoint(Self.accountEndpoints[Int(Self.firstAccountEndpoint - target)])
        }
    }

    /// The route that matches a request without serving it, and the stricter route that prevents it; `nil` for the latter
    /// if the path leads to its parent.
    public func withheldMatch(
        method: Span<UInt8>, path: Span<UInt8>, group: Int = 0
    ) -> (route: Route, stricter: Route?)? {
        var (allowed, scratch): (UInt64, [UInt8]) = (0, [])
        let method = methods.index(of: method)
        let target = find(method, in: path, from: 1, at: roots[group].exact, allowed: &allowed)
        guard target >= 0, strictness[Int(target)].isChecked,
            let leaf = withheld(target, method, path, group, &scratch)
        else { return nil }
        let stricter = groups.members[group].first {
            lenientLeaves[group * routes.count + $0] == leaf && strictness[$0].isStricter(than: strictness[Int(target)])
        }
        return (routes[Int(target)], stricter.map { routes[$0] })
    }

    // MARK: - Matching

    /// Returns the leaf of the lenient tree that prevents a match; `nil` if it has to be served, -1 if the path leads to
    /// its parent.
    @inline(never)
    private func withheld(
        _ route: Int32, _ method: Int?, _ path: Span<UInt8>, _ group: Int, _ scratch: inout [UInt8]
    ) -> Int32? {
        let isPlain = LenientPath.isPlain(path)
        guard strictness[Int(route)].isWider || !isPlain else { return nil }
        for pass in 0..<(isPlain ? 1 : 2) {
            if LenientPath.write(path, into: &scratch, splitsEncoded: pass == 0) { return -1 }
            var allowed: UInt64 = 0
            let found = find(
                method, in: scratch.span, from: 0, at: roots[group].lenient,
                for: Int32(group * routes.count) + route, allowed: &allowed)
            if found < Self.unassigned { return found &- Int32.min }
        }
        return nil
    }

    /// - Parameter matched: In the lenient tree, the position in ``lenientLeaves`` of the route to find unless a stricter
    ///   one precedes it; otherwise -1.
    private func find(
        _ method: Int?, in path: Span<UInt8>, from start: Int, at node: Int, for matched: Int32 = -1,
        allowed: inout UInt64
    ) -> Int32 {
        var end = start
        var hash = SegmentEdgeTable.seed
        while end < path.count, path[end] != UInt8(ascii: "/") {
            hash = SegmentEdgeTable.hash(hash, path[end])
            end += 1
        }
        let isLast = end == path.count
        if let child = edges.child(of: node, hash: hash, path: path, from: start, to: end) {
            let target =
                isLast
                ? serve(method, path, leaf: nodes[child].leaf, for: matched, allowed: &allowed)
                : find(method, in: path, from: end + 1, at: child, for: matched, allowed: &allowed)
            if target != Self.unassigned { return target }
        }
        if end > start, nodes[node].parameter >= 0 {
            let child = Int(nodes[node].parameter)
            let target =
                isLast
                ? serve(method, path, leaf: nodes[child].leaf, for: matched, allowed: &allowed)
                : find(method, in: path, from: end + 1, at: child, for: matched, allowed: &allowed)
            if target != Self.unassigned { return target }
        }
        return serve(method, path, leaf: nodes[node].restLeaf, for: matched, allowed: &allowed)
    }

    private func serve(
        _ method: Int?, _ path: Span<UInt8>, leaf: Int32, for matched: Int32, allowed: inout UInt64
    ) -> Int32 {
        guard leaf >= 0 else { return Self.unassigned }
        if matched >= 0 {
            guard let method, leaf != lenientLeaves[Int(matched)] else { return matched }
            let isStricter = leaves[Int(leaf)].rules[method] & strictness[Int(matched) % routes.count].stricter != 0
            return isStricter ? Int32.min + leaf : Self.unassigned
        }
        if leaves[Int(leaf)].mayMeetTokenCall, tokenCalls.contains(path) { return Self.unassigned }
        if let method {
            let target = leaves[Int(leaf)].targets[method]
            if target != Self.unassigned, target != Self.methodNotAllowedCode { return target }
        }
        var result = Self.unassigned
        for (index, target) in leaves[Int(leaf)].targets.enumerated() where target != Self.unassigned {
            if target == Self.reserved { return Self.reserved }
            if target == Self.methodNotAllowedCode {
                result = Self.methodNotAllowedCode
            } else {
                allowed |= 1 << UInt64(min(index, 63))
            }
        }
        return result
    }

    // MARK: - Compiling

    /// Returns the methods that a route accepts: `GET` includes `HEAD` (RFC 9110 §9.3.2).
    static func served(by route: Route) -> [String] {
        route.methods.contains("GET") && !route.methods.contains("HEAD") ? route.methods + ["HEAD"] : route.methods
    }

    private mutating func set(
        target: Int32, for method: String, at segments: [PathPattern.Segment], from root: Int
    ) {
        guard let methodIndex = methods.index(of: Array(method.utf8).span) else { return }
        let leaf = leafIndex(for: segments, from: root)
        leaves[leaf].targets[methodIndex] = target
    }

    /// The prefix and all paths below it belong to the gateway: a wildcard route must not forward requests to the
    /// upstream's token calls.
    private mutating func addAccountEndpoints(_ accounts: AccountsConfiguration, from root: Int) {
        guard let prefix = try? PathPattern(accounts.prefix) else { return }
        let present = Self.accountEndpoints.enumerated().filter { $1.isPresent(accounts) }
        for (offset, endpoint) in present {
            for method in endpoint.methods {
                for path in endpoint.paths {
                    let target = Self.firstAccountEndpoint - Int32(offset)
                    set(target: target, for: method, at: prefix.segments + path, from: root)
                }
            }
        }
        for path in Set(present.flatMap(\.element.paths)) { rejectOtherMethods(prefix.segments + path, from: root) }
        reserve(prefix.segments, from: root)
    }

    /// Adds the lenient tree of the last group.
    private mutating func addLenientTree(of members: [Int]) {
        let (root, first) = (nodes.count, lenientLeaves.count)
        roots[roots.count - 1].lenient = root
        nodes.append(Node())
        lenientLeaves += Array(repeating: -1, count: routes.count)
        for index in members {
            let leaf = leafIndex(for: routes[index].pattern.lenient.segments, from: root)
            lenientLeaves[first + index] = Int32(leaf)
        }
        for (leaf, indices) in Dictionary(grouping: members, by: { Int(lenientLeaves[first + $0]) }) {
            let all = indices.reduce(0) { $0 | strictness[$1].own }
            var rules = Array(repeating: UInt64(0), count: methods.count)
            for index in indices {
                for method in Self.served(by: routes[index]).compactMap({ methods.index(of: Array($0.utf8).span) }) {
                    rules[method] |= strictness[index].own
                }
            }
            leaves[leaf].rules = rules.map { $0 == 0 ? all : $0 }
        }
    }

    private mutating func rejectOtherMethods(_ segments: [PathPattern.Segment], from root: Int) {
        let own = leafIndex(for: segments, from: root)
        leaves[own].targets = leaves[own].targets.map {
            $0 <= Self.firstAccountEndpoint ? $0 : Self.methodNotAllowedCode
        }
        leaves[own].mayMeetTokenCall = false
    }

    private mutating func reserve(_ segments: [PathPattern.Segment], from root: Int) {
        for below in [PathPattern.Segment.wildcard, .literal("")] {
            let leaf = leafIndex(for: segments + [below], from: root)
            leaves[leaf].targets = Array(repeating: Self.reserved, count: methods.count)
            leaves[leaf].mayMeetTokenCall = false
        }
    }

    private mutating func leafIndex(for segments: [PathPattern.Segment], from root: Int) -> Int {
        var node = root
        for segment in segments {
            switch segment {
            case .literal(let text):
                let (child, isNew) = edges.child(of: node, named: text, orNew: nodes.count)
                if isNew { nodes.append(Node()) }
                node = child
            case .parameter:
                if nodes[node].parameter < 0 {
                    nodes[node].parameter = Int32(nodes.count)
                    nodes.append(Node())
                }
                node = Int(nodes[node].parameter)
            case .wildcard:
                if nodes[node].restLeaf < 0 { nodes[node].restLeaf = Int32(addLeaf()) }
                return Int(nodes[node].restLeaf)
            }
        }
        if nodes[node].leaf < 0 { nodes[node].leaf = Int32(addLeaf()) }
        return Int(nodes[node].leaf)
    }

    private mutating func addLeaf() -> Int {
        leaves.append(Leaf(targets: Array(repeating: Self.unassigned, count: methods.count)))
        return leaves.count - 1
    }
}

extension AccountEndpoint {
    /// The methods that the endpoint accepts.
    var methods: [String] {
        switch self {
        case .signIn, .pageSignIn, .backChannel, .app, .appCode, .device: ["POST"]
        case .currentSession, .listSessions, .page, .keys: ["GET", "HEAD"]
        // A login is begun and completed once, and a sign-out continues once; HEAD would spend it.
        case .login, .callback, .logout: ["GET"]
        case .signOut, .endOtherSessions, .endSession: ["DELETE"]
        }
    }

    /// The paths of the endpoint below the accounts prefix.
    var paths: [[PathPattern.Segment]] {
        switch self {
        case .signIn, .currentSession, .signOut: [[]]
        case .listSessions, .endOtherSessions: [[.literal("sessions")]]
        case .endSession: [[.literal("sessions"), .parameter("id")]]
        case .page, .pageSignIn: [[.literal("page")]]
        case .login: [[.literal("login")]]
        case .callback: [[.literal("callback")], [.literal("callback"), .parameter("identity")]]
        case .logout: [[.literal("logout")]]
        case .backChannel: [[.literal("backchannel")], [.literal("backchannel"), .parameter("identity")]]
        case .app: [[.literal("app")]]
        case .appCode: [[.literal("app"), .literal("code")]]
        case .keys: [[.literal("keys")]]
        case .device: [[.literal("device")]]
        }
    }

    /// The distinct paths of all endpoints below the accounts prefix.
    private static let distinctPaths: [[PathPattern.Segment]] = allCases.flatMap(\.paths).reduce(into: []) {
        if !$0.contains($1) { $0.append($1) }
    }

    /// The path templates of all endpoints, for metrics and traces: `/auth/sessions/{id}`.
    /// - Parameter prefix: The accounts prefix.
    public static func templates(under prefix: String) -> [String] {
        guard let prefix = try? PathPattern(prefix) else { return distinctPaths.map { _ in "" } }
        return distinctPaths.map { PathPattern(segments: prefix.segments + $0).description }
    }

    /// The index of the endpoint's template in ``templates(under:)``.
    /// - Parameter hasName: Whether the path has a segment that names an identity or a session.
    public func templateIndex(hasName: Bool) -> Int {
        guard let path = hasName ? paths.last : paths.first else { return 0 }
        return Self.distinctPaths.firstIndex(of: path) ?? 0
    }

    package func isPresent(_ accounts: AccountsConfiguration) -> Bool {
        switch self {
        case .signIn, .pageSignIn: accounts.upstream != nil
        case .login, .callback, .logout, .backChannel, .keys: accounts.hasProviders
        case .app, .appCode: accounts.hasProviders && !accounts.apps.isEmpty
        case .currentSession, .signOut, .listSessions, .endOtherSessions, .endSession, .page, .device:
            accounts.isEnabled
        }
    }
}
