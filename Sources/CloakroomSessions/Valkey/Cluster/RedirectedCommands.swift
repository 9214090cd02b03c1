import CloakroomCore
import Synchronization

/// The reply to a command, and the server that sent it.
struct RoutedReply: Sendable {
    let reply: Result<RESPValue, ValkeyCommandError>
    let sender: HostAndPort
}

/// Sends commands of a cluster to the servers of their slots, and again if they were certainly not executed.
///
/// A command is sent again at most ``maximumAttempts`` times and for the timeout of a command, after delays that grow.
struct RedirectedCommands: Sendable {
    /// The maximum number of times that a command is sent.
    static let maximumAttempts = 16
    /// The maximum number of callers that wait to send commands again. More fail immediately.
    static let maximumWaiting = 10_000

    private static let delays = ExponentialBackoff(initial: .milliseconds(5), maximum: .milliseconds(80), jitter: 0.5)

    let timeout: Duration
    private let waiting = Counter()

    /// Whether the server certainly did not execute the command, and another one, or the same one later, may.
    static func isNotExecuted(_ reply: Result<RESPValue, ValkeyCommandError>) -> Bool {
        guard case .failure(.rejected(let error)) = reply else { return false }
        return switch error.code {
        case "MOVED", "ASK": error.redirection != nil
        case "TRYAGAIN", "CLUSTERDOWN": true
        default: false
        }
    }

    /// Completes commands.
    /// - Parameter replies: The replies so far; `nil` for commands that were not sent.
    func complete(
        _ commands: [ValkeyCommand], _ replies: [RoutedReply?], isDurable: Bool, using client: ValkeyClient
    ) async -> [Result<RESPValue, ValkeyCommandError>] {
        var replies = replies
        let end = ContinuousClock.now + timeout
        var generator = SystemRandomNumberGenerator()
        for attempt in 1...Self.maximumAttempts {
            let open = replies.indices.filter { index in
                guard let reply = replies[index] else { return true }
                return reply.sender != Self.nowhere && Self.isNotExecuted(reply.reply)
            }
            guard !open.isEmpty else { break }
            // The server has not executed these: they are sent again, but not forever.
            var askTargets: [Int: ValkeyLink] = [:]
            // Servers that disagree redirect in circles.
            var mustWait = attempt > 3
            for index in open {
                guard let (error, sender) = Self.rejection(replies[index]) else { continue }
                // A redirection of another slot than the command's is an error of the server.
                guard let redirection = error.redirection, redirection.slot == commands[index].slot.map(Int.init) else {
                    mustWait = true
                    continue
                }
                if let target = await client.follow(redirection, from: sender) { askTargets[index] = target }
            }
            var batches: [ObjectIdentifier: (link: ValkeyLink, indexes: [Int])] = [:]
            for index in open where askTargets[index] == nil {
                switch client.route(commands[index]) {
                case .link(let link):
                    // A server that just redirected here is not asked again at once.
                    if replies[index]?.sender == link.address { mustWait = true }
                    batches[ObjectIdentifier(link), default: (link, [])].indexes.append(index)
                case .wait: mustWait = true
                case .none: replies[index] = RoutedReply(reply: .failure(.notConnected), sender: Self.nowhere)
                case .inDoubt: replies[index] = RoutedReply(reply: Self.inDoubt, sender: Self.nowhere)
                }
            }
            if mustWait {
                guard ContinuousClock.now < end, attempt < Self.maximumAttempts,
                    await waiting.perform(
                        limit: Self.maximumWaiting,
                        {
                            try? await Task.sleep(
                                for: Self.delays.delay(afterFailures: attempt, random: generator.next()))
                        })
                else { break }
                // The routes may have changed.
                batches = [:]
                for index in open where askTargets[index] == nil {
                    if case .link(let link) = client.route(commands[index]) {
                        batches[ObjectIdentifier(link), default: (link, [])].indexes.append(index)
                    }
                }
            }
            await send(commands, batches.values, askTargets, isDurable, client, &replies)
        }
        return replies.map { $0?.reply ?? .failure(.notConnected) }
    }

    /// As a server would respond that is separated from its cluster.
    private static let inDoubt = Result<RESPValue, ValkeyCommandError>.failure(
        .rejected(RESPError(line: "CLUSTERDOWN the server of this slot is not confirmed")))
    private static let nowhere = HostAndPort(host: "", port: 0)

    private static func rejection(_ reply: RoutedReply?) -> (RESPError, HostAndPort)? {
        guard let reply, case .failure(.rejected(let error)) = reply.reply else { return nil }
        return (error, reply.sender)
    }

    /// Sends commands to all servers at the same time.
    private func send(
        _ commands: [ValkeyCommand], _ batches: some Collection<(link: ValkeyLink, indexes: [Int])>,
        _ askTargets: [Int: ValkeyLink], _ isDurable: Bool, _ client: ValkeyClient, _ replies: inout [RoutedReply?]
    ) async {
        typealias Received = [(Int, RoutedReply)]
        await withTaskGroup(of: Received.self) { group in
            for (link, indexes) in batches {
                group.addTask {
                    let received = await client.send(indexes.map { commands[$0] }, over: link, isDurable: isDurable)
                    return zip(indexes, received).map { ($0, RoutedReply(reply: $1, sender: link.address)) }
                }
            }
            for (index, link) in askTargets {
                group.addTask {
                    let reply = await client.sendAsking(commands[index], over: link, isDurable: isDurable)
                    return [(index, RoutedReply(reply: reply, sender: link.address))]
                }
            }
            for await received in group {
                for (index, reply) in received { replies[index] = reply }
            }
        }
    }

    /// Limits how many callers wait.
    private final class Counter: Sendable {
        private let count = Atomic<Int>(0)

        /// - Returns: `false` if too many wait already; then nothing was done.
        func perform(limit: Int, _ body: () async -> Void) async -> Bool {
            defer { count.subtract(1, ordering: .relaxed) }
            guard count.add(1, ordering: .relaxed).newValue <= limit else { return false }
            await body()
            return true
        }
    }
}

/// The error of a cluster's server that does not have a slot: another server has it (`MOVED`), or may have this key
/// while the slot is being moved (`ASK`). The command was not executed.
struct ClusterRedirection: Sendable, Equatable {
    enum Kind: String, Sendable {
        case moved = "MOVED"
        /// Only this command, after `ASKING`.
        case ask = "ASK"
    }

    /// The host of the other server.
    private enum Host: Equatable {
        case named(String)
        /// The host of the server that sent the error.
        case sender
        /// The cluster prefers host names, and the other server announces none.
        case unknown
    }

    let kind: Kind
    let slot: Int
    private let host: Host
    /// 1...65535.
    let port: Int

    /// Parses the line of an error: the code, the slot, and `host:port`. The port follows the last colon, because an
    /// IPv6 address contains colons.
    /// - Returns: `nil` for other errors and for invalid redirections.
    init?(line: String) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, let kind = Kind(rawValue: String(words[0])),
            let slot = UInt16(words[1]), HashSlot.all.contains(Int(slot)),
            let colon = words[2].lastIndex(of: ":"),
            let port = UInt16(words[2][words[2].index(after: colon)...]), port > 0
        else { return nil }
        switch words[2][..<colon] {
        case "": host = .sender
        case "?": host = .unknown
        case let text:
            guard let name = ClusterNode.host(String(text)) else { return nil }
            host = .named(name)
        }
        self.kind = kind
        self.slot = Int(slot)
        self.port = Int(port)
    }

    /// The address of the other server.
    /// - Parameter sender: The server that sent the error.
    /// - Returns: `nil` if it is unknown.
    func address(from sender: HostAndPort) -> HostAndPort? {
        switch host {
        case .named(let name): HostAndPort(host: name, port: port)
        case .sender: HostAndPort(host: sender.host, port: port)
        case .unknown: nil
        }
    }
}
