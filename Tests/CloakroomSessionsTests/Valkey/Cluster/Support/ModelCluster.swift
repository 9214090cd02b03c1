import CloakroomCore
import NIOCore
import Testing

@testable import CloakroomSessions

/// Servers without sockets, and the machine that decides about them. Time passes only in ``advance(_:)``.
struct ModelCluster {
    /// A server, and what it reports.
    struct Server {
        var isReachable = true
        /// Whether it replies over existing connections.
        var replies = true
        /// The port of the owner of each slot range that it reports.
        var view: [(Range<Int>, Int)]
        var replicas: [Int] = []
    }

    /// The slots of three primaries, the servers 1, 2 and 3.
    static let (first, second, third) = (0..<5_461, 5_461..<10_923, 10_923..<16_384)
    static let thirds = [(first, 1), (second, 2), (third, 3)]
    /// Slots of the server 1 have moved to another one.
    static func moved(_ slots: Range<Int>, to port: Int) -> [(Range<Int>, Int)] {
        [(0..<slots.lowerBound, 1), (slots, port), (slots.upperBound..<5_461, 1), (second, 2), (third, 3)]
            .filter { !$0.0.isEmpty }
    }

    /// The server 4 has replaced the server 1.
    static let afterFailover = [(first, 4), (second, 2), (third, 3)]

    var servers: [Int: Server]
    var topology: ClusterTopology
    private(set) var now = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    private(set) var links: Set<Int> = []
    private(set) var actions: [ClusterTopology.Action] = []
    private(set) var routes = [ClusterTopology.Destination](repeating: .none, count: HashSlot.count)
    private(set) var trusted = [Bool](repeating: false, count: HashSlot.count)
    /// Whether restorations are completed at once.
    var restores = true
    private(set) var restorations: [(number: UInt32, slots: [Range<Int>], port: Int)] = []
    /// Whether the order was violated: a slot whose route changed while it was trusted, or that is trusted without a
    /// link. The first violation is an issue of the test.
    private var isViolated = false

    private var replies = CircularBuffer<ClusterTopology.Action>()

    init(_ view: [(Range<Int>, Int)] = Self.thirds, seeds: [Int] = [1]) {
        servers = Dictionary(
            uniqueKeysWithValues: Set(view.map(\.1) + seeds).map { ($0, Server(view: view)) })
        topology = ClusterTopology(seeds: seeds.map(Self.address), random: 7, now: now)
    }

    /// A cluster of three primaries that are connected and trusted.
    static func ready() -> ModelCluster {
        var cluster = ModelCluster()
        cluster.advance(.seconds(1))
        cluster.forgetActions()
        return cluster
    }

    static func address(_ port: Int) -> HostAndPort { HostAndPort(host: "10.0.0.\(port)", port: port) }

    /// Lets time pass, with a tick every 50 ms.
    mutating func advance(_ time: TimeAmount) {
        let end = now + time
        while now < end {
            now = now + .milliseconds(50)
            perform(topology.tick(now: now))
        }
    }

    mutating func perform(_ list: [ClusterTopology.Action]) {
        apply(list)
        // Servers reply after all actions of the event.
        while let next = replies.popFirst() {
            switch next {
            case .connect(let node): connect(node.address.port)
            case .ask(let address): answer(address.port)
            case .askSeed(let address): answerSeed(address.port)
            case .restore(let number, _, _): apply(topology.restored(number, now: now))
            default: break
            }
        }
    }

    private mutating func apply(_ list: [ClusterTopology.Action]) {
        for action in list {
            actions.append(action)
            switch action {
            case .connect, .ask, .askSeed: replies.append(action)
            case .disconnect(let address): links.remove(address.port)
            case .distrust(let slots): for slot in slots.joined() { trusted[slot] = false }
            case .route(let slots, let destination):
                for slot in slots.joined() {
                    if trusted[slot], routes[slot] != destination { violated("route of trusted \(slot)") }
                    routes[slot] = destination
                }
            case .restore(let number, let slots, let address):
                restorations.append((number, slots, address.port))
                if restores { replies.append(action) }
            case .trust(let slots, _):
                for slot in slots.joined() {
                    guard case .link(let address) = routes[slot], links.contains(address.port) else {
                        violated("trust without a link for \(slot)")
                        continue
                    }
                    if trusted[slot] { violated("\(slot) is trusted twice") }
                    trusted[slot] = true
                }
            }
        }
    }

    private mutating func violated(_ text: String) {
        if !isViolated { Issue.record("\(text)") }
        isViolated = true
    }

    private mutating func connect(_ port: Int) {
        if servers[port]?.isReachable == true, servers[port]?.replies == true {
            links.insert(port)
            apply(topology.linkReady(Self.address(port), now: now))
        } else {
            apply(topology.linkLost(Self.address(port), now: now))
        }
    }

    private mutating func answer(_ port: Int) {
        guard let server = servers[port], server.isReachable, server.replies, links.contains(port),
            let report = Self.report(server)
        else { return }
        apply(topology.answered(Self.address(port), report, now: now))
    }

    private mutating func answerSeed(_ port: Int) {
        guard let server = servers[port], server.isReachable, server.replies, let report = Self.report(server) else {
            return apply(topology.seedNotAnswered(now: now))
        }
        apply(topology.seedAnswered(report, now: now))
    }

    static func report(_ server: Server) -> ClusterSlots? {
        func node(_ port: Int) -> RESPValue {
            .array([.simple(address(port).host), .integer(Int64(port))])
        }
        let rows = server.view.map { range, port in
            RESPValue.array(
                [.integer(Int64(range.lowerBound)), .integer(Int64(range.upperBound - 1)), node(port)]
                    + server.replicas.map(node))
        }
        return try? ClusterSlots(.array(rows), asked: "asked.test")
    }

    /// The connection to a server ends, and the server is reachable or not from now on.
    mutating func lose(_ port: Int, isReachable: Bool = false) {
        servers[port]?.isReachable = isReachable
        links.remove(port)
        perform(topology.linkLost(Self.address(port), now: now))
    }

    /// Changes what servers report.
    mutating func report(_ view: [(Range<Int>, Int)], by ports: Int...) {
        report(view, by: ports)
    }

    mutating func report(_ view: [(Range<Int>, Int)], by ports: [Int]) {
        for port in ports {
            if servers[port] == nil { servers[port] = Server(view: view) }
            servers[port]?.view = view
        }
    }

    mutating func moved(_ slot: Int, to: Int, by: Int) {
        perform(topology.moved(slot, to: Self.address(to), by: Self.address(by), now: now))
    }

    /// A server redirects to one whose name it does not know.
    mutating func movedToUnknown(_ slot: Int, by: Int) {
        perform(topology.redirected(slot, toUnknownBy: Self.address(by), now: now))
    }

    mutating func asking(_ slot: Int, to: Int, by: Int) {
        perform(topology.asking(slot, to: Self.address(to), by: Self.address(by), now: now))
    }

    mutating func restored(_ number: UInt32) {
        perform(topology.restored(number, now: now))
    }

    mutating func forgetActions() {
        actions = []
        restorations = []
    }

    /// The server that gets commands for a slot.
    func port(of slot: Int) -> Int? {
        if case .link(let address) = routes[slot] { address.port } else { nil }
    }

    func areTrusted(_ slots: Range<Int>) -> Bool { slots.allSatisfy { trusted[$0] } }

    func questions(to port: Int) -> Int {
        actions.count { $0 == .ask(Self.address(port)) }
    }

    func connections(to port: Int) -> Int {
        actions.count { $0 == .connect(ClusterNode(address: Self.address(port))) }
    }
}
