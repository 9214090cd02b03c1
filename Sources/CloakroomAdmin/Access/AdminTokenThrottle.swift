import CloakroomCore
import Synchronization

/// Limits wrong admin tokens, per client address and in total, in this process. A correct token is not counted: clients
/// that share the operator's address, such as other users of the machine, could otherwise block it.
final class AdminTokenThrottle: Sendable {
    /// The result of an attempt.
    enum Outcome: Sendable, Equatable {
        /// The token is correct.
        case right
        /// The token is wrong or missing.
        case wrong
        /// The token is wrong, after too many wrong ones. The next attempt counts after this duration.
        case throttled(Duration)
    }

    /// Five wrong tokens in a minute from one address, then a delay of 1 s that doubles up to 1 minute. The count
    /// expires 10 minutes after the last delay. `maxDelay` is longer than the longest delay, which would otherwise end
    /// when the wall clock is set back by a millisecond.
    private static let address = ThrottleRule(
        limit: 5, window: .seconds(60),
        delay: .doubling(first: .seconds(1), longest: .seconds(60), memory: .seconds(600)), maxDelay: .seconds(120))

    /// A hundred wrong tokens in a minute from all addresses, then one attempt per second for the rest of the minute.
    /// This limit applies only to addresses with wrong tokens of their own.
    private static let all = ThrottleRule(
        limit: 100, window: .seconds(60), delay: .constant(.seconds(1)), maxDelay: .seconds(60))

    /// The maximum number of addresses counted separately. All others share one count.
    static let addressLimit = 1_024

    private struct State {
        var all: ThrottleState?
        /// `nil` counts unknown addresses and those beyond ``addressLimit``.
        var addresses: [ClientAddressKey?: ThrottleState] = [:]
    }

    private let state = Mutex(State())

    /// The number of tracked addresses.
    var count: Int { state.withLock { $0.addresses.count } }

    /// Counts a wrong token, unless its address has sent too many, or has sent one while the total limit is exceeded.
    /// - Parameters:
    ///   - peer: The client's address, without port.
    ///   - isRight: Whether the token is correct.
    func attempt(from peer: String, now: SessionTime, isRight: Bool) -> Outcome {
        guard !isRight else { return .right }
        return state.withLock { state in
            let key = Self.key(peer, in: &state, now: now)
            let before = (address: state.addresses[key], all: state.all)
            if let wait = Self.address.wait(before.address, now: now) { return .throttled(wait) }
            let waitOfAll = Self.all.wait(before.all, now: now)
            let hasFailures = before.address.map { Self.address.lifetime(of: $0, now: now) > .zero } ?? false
            if let waitOfAll, hasFailures { return .throttled(waitOfAll) }
            state.addresses[key] = Self.address.recordingAttempt(before.address, now: now)
            // Attempts that pass despite the total limit do not extend it.
            if waitOfAll == nil { state.all = Self.all.recordingAttempt(before.all, now: now) }
            return .wrong
        }
    }

    /// The key that an address is counted by. Removes expired entries if the table is full.
    private static func key(_ peer: String, in state: inout State, now: SessionTime) -> ClientAddressKey? {
        let block = ClientAddressKey(peer)
        guard state.addresses[block] == nil, state.addresses.count >= addressLimit else { return block }
        state.addresses = state.addresses.filter { address.lifetime(of: $0.value, now: now) > .zero }
        return state.addresses.count < addressLimit ? block : nil
    }
}
