import CloakroomCore
import Synchronization

/// Limits wrong admin tokens, per client address and in all, in this process. While an address has to wait, no token of
/// it is compared.
///
/// Counting and comparing are one step, so that simultaneous attempts are limited as well. A right token ends the count of
/// its address.
final class AdminTokenThrottle: Sendable {
    /// The result of an attempt.
    enum Outcome: Sendable, Equatable {
        /// The token is right.
        case right
        /// The token is wrong, or there is none.
        case wrong
        /// The token was not compared. The next attempt is allowed after this time.
        case throttled(Duration)
    }

    /// Five wrong tokens in a minute from one address, then a wait of 1 s that doubles up to 1 minute. The count is
    /// forgotten 10 minutes after the last wait.
    private static let address = ThrottleRule(
        limit: 5, window: .seconds(60),
        delay: .doubling(first: .seconds(1), longest: .seconds(60), memory: .seconds(600)), maxDelay: .seconds(60))

    /// A hundred wrong tokens in a minute from all addresses together, then one attempt per second until the minute is
    /// over. It holds back only addresses that have wrong tokens of their own, or anyone could keep operators out.
    private static let all = ThrottleRule(
        limit: 100, window: .seconds(60), delay: .constant(.seconds(1)), maxDelay: .seconds(60))

    /// The most addresses that are counted separately. Those beyond share one count.
    static let addressLimit = 1_024

    private struct State {
        var all: ThrottleState?
        /// `nil` counts those whose address is unknown, and those beyond ``addressLimit``.
        var addresses: [ClientAddressKey?: ThrottleState] = [:]
    }

    private let state = Mutex(State())

    /// How many addresses are remembered.
    var count: Int { state.withLock { $0.addresses.count } }

    /// Compares a token unless its address has sent too many wrong ones, or has sent one and all addresses together too
    /// many.
    /// - Parameters:
    ///   - peer: The client's address, without port.
    ///   - isRight: Compares the token; not called for an attempt that has to wait.
    func attempt(from peer: String, now: Timestamp, isRight: () -> Bool) -> Outcome {
        state.withLock { state in
            let key = Self.key(peer, in: &state, now: now)
            let before = (address: state.addresses[key], all: state.all)
            if let wait = Self.address.wait(before.address, now: now) { return .throttled(wait) }
            let waitOfAll = Self.all.wait(before.all, now: now)
            let hasFailures = before.address.map { Self.address.lifetime(of: $0, now: now) > .zero } ?? false
            if let waitOfAll, hasFailures { return .throttled(waitOfAll) }
            guard !isRight() else {
                state.addresses[key] = nil
                return .right
            }
            state.addresses[key] = Self.address.recordingAttempt(before.address, now: now)
            // What passes although all have to wait does not make the others wait longer.
            if waitOfAll == nil { state.all = Self.all.recordingAttempt(before.all, now: now) }
            return .wrong
        }
    }

    /// The name that an address is counted by. Forgets what is over when there is no room.
    private static func key(_ peer: String, in state: inout State, now: Timestamp) -> ClientAddressKey? {
        let block = ClientAddressKey(peer)
        guard state.addresses[block] == nil, state.addresses.count >= addressLimit else { return block }
        state.addresses = state.addresses.filter { address.lifetime(of: $0.value, now: now) > .zero }
        return state.addresses.count < addressLimit ? block : nil
    }
}
