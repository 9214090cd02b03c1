import CloakroomCore
import Logging
import NIOCore
import Synchronization

/// A kind of write that was repeated after a failover, as metrics name it.
public enum ReassertedWrite: String, Sendable, Hashable, CaseIterable {
    /// The end of a session.
    case end
    /// A new session that the server did not have.
    case insert
    /// The refreshed tokens of a session.
    case update
    /// The lease of a refresh that is in progress.
    case lease
    /// The entry of a session in the list of its account.
    case index
    /// The time before which all sessions of an account have ended.
    case cutoff
    /// A timed mark.
    case mark
}

/// Counts and logs what concerns writes that a failover may lose. Keys and values are not available here.
final class DurabilityLog: Sendable {
    private let logger: Logger
    private let events: SessionStoreCallbacks
    /// The servers that were reported to have too few replicas, with their number, until they have enough.
    private let shortfalls = Mutex<[String: Int]>([:])
    /// The maximum number of servers in ``shortfalls``: a cluster may name ever new ones.
    static let mostServers = 256
    /// The number of servers that were reported.
    var serverCount: Int { shortfalls.withLock(\.count) }
    /// The number of writes that were displaced since a repetition was complete.
    private let displaced = Atomic(0)
    private let displacements = LogRateLimiter(interval: .seconds(60))
    private let timeouts = LogRateLimiter(interval: .seconds(60))
    private let failures = LogRateLimiter(interval: .seconds(60))
    private let rejections = LogRateLimiter(interval: .seconds(600))

    init(_ logger: Logger, _ events: SessionStoreCallbacks) {
        self.logger = logger
        self.events = events
    }

    /// Counts the writes among these replies that were executed.
    func unconfirmed(_ replies: [Result<RESPValue, ValkeyCommandError>]) {
        let count = replies.count { reply in if case .success = reply { true } else { false } }
        if count > 0 { events.onUnconfirmedWrites(count) }
    }

    /// Logs once for each change that a server has too few replicas, and that it has enough again.
    func replicas(_ address: String, required: Int, connected: Int) {
        let (isMissing, previous) = (connected < required, shortfall(address, required: required, connected: connected))
        guard previous != (isMissing ? connected : nil) else { return }
        switch connected {
        case 0:
            logger.notice(
                "session store has no connected replica",
                metadata: [
                    "address": "\(address)",
                    "hint": "add a replica, or set session.valkey.replicas to 0 if the server has none on purpose",
                ])
        case ..<required:
            logger.notice(
                "session store has too few connected replicas",
                metadata: [
                    "address": "\(address)", "required": "\(required)", "connected": "\(connected)",
                    "hint": "every write counts as unconfirmed: add replicas, or lower session.valkey.replicas",
                ])
        case 1:
            logger.notice("session store has a connected replica again", metadata: ["address": "\(address)"])
        default:
            logger.notice(
                "session store has enough connected replicas again",
                metadata: ["address": "\(address)", "connected": "\(connected)"])
        }
    }

    /// Sets the number of replicas of a server.
    /// - Returns: The number that was set before; `nil` if it was sufficient.
    private func shortfall(_ address: String, required: Int, connected: Int) -> Int? {
        shortfalls.withLock { shortfalls in
            guard connected < required else { return shortfalls.removeValue(forKey: address) }
            if shortfalls.count >= Self.mostServers, shortfalls[address] == nil { shortfalls.removeAll() }
            return shortfalls.updateValue(connected, forKey: address)
        }
    }

    func timedOut(_ address: String, required: Int, confirmed: Int) {
        guard let suppressed = timeouts.allow(at: Self.now) else { return }
        logger.warning(
            "session store replicas did not confirm a write in time",
            metadata: [
                "address": "\(address)", "required": "\(required)", "confirmed": "\(confirmed)",
                "suppressed": "\(suppressed)",
            ])
    }

    /// Logs that the server rejected `WAIT`.
    func rejected(_ address: String, code: String) {
        guard rejections.allow(at: Self.now) != nil else { return }
        logger.warning(
            "session store rejected a command",
            metadata: [
                "address": "\(address)", "reason": "\(code.lowercased())", "command": "WAIT",
                "hint": "grant the user the command wait (ACL SETUSER), or set session.valkey.replicas to 0",
            ])
    }

    /// Logs that the connection for confirmed writes could not be established.
    func notConnected(_ address: String, _ reason: ValkeyDisconnectReason) {
        guard let suppressed = failures.allow(at: Self.now) else { return }
        logger.warning(
            "session store accepts no second connection",
            metadata: [
                "address": "\(address)", "reason": "\(reason.kind)", "suppressed": "\(suppressed)",
                "hint": "writes are not confirmed by replicas; check the server's maxclients",
            ])
    }

    /// Counts and logs the writes that a new server did not have.
    /// - Parameters:
    ///   - unwritten: The number of journaled writes that were not sent, have no reply, or were rejected.
    ///   - reason: The code of the last rejection.
    func reasserted(_ counts: [ReassertedWrite: Int], unwritten: Int, reason: String? = nil) {
        for (kind, count) in counts where count > 0 { events.onReassertedWrites(kind, count) }
        let total = counts.values.reduce(0, +)
        guard total > 0 || unwritten > 0 else { return }
        // Those are not repeated any more.
        let unwritten = unwritten + displaced.load(ordering: .relaxed)
        var metadata: Logger.Metadata = ["unwritten": "\(unwritten)"]
        for kind in ReassertedWrite.allCases { metadata[kind.rawValue] = "\(counts[kind] ?? 0)" }
        if unwritten == 0 {
            logger.notice("session store lost writes, which were repeated", metadata: metadata)
        } else {
            if let reason { metadata["reason"] = "\(reason.lowercased())" }
            logger.warning("session store may have lost writes, and not all were repeated", metadata: metadata)
        }
    }

    /// Counts and logs writes that the journal has displaced, and that a server may lack.
    func displaced(_ count: Int) {
        let total = displaced.add(count, ordering: .relaxed).newValue
        if displacements.allow(at: Self.now) != nil { logDisplaced(total) }
    }

    private func logDisplaced(_ count: Int) {
        logger.warning(
            "session store may have lost writes, and not all were repeated",
            metadata: [
                "unwritten": "\(count)", "reason": "displaced",
                "hint": "more writes waited for a server than the gateway keeps",
            ])
    }

    /// Logs that the writes that were not accepted have been repeated since, or are too old for that; or how many were
    /// displaced before.
    func completed() {
        let displaced = displaced.exchange(0, ordering: .relaxed)
        guard displaced == 0 else { return logDisplaced(displaced) }
        logger.notice("no writes are left to repeat in the session store")
    }

    private static var now: UInt64 { NIODeadline.now().uptimeNanoseconds }
}
