import CloakroomCore
import Synchronization

/// Which sessions an account has: by a hash of its name, the names of its sessions.
///
/// What it says is where to look, not what will be found: whoever asks compares the account of the session itself. So a
/// name is put in before its session is there and taken out after it is gone, and no lock is held over both.
final class AccountIndex: Sendable {
    private struct Contents {
        /// The session of accounts that have one, which is nearly all of them: 16 bytes a slot.
        var first: [UInt64: UInt64] = [:]
        /// The others of accounts that have more.
        var more: [UInt64: [UInt64]] = [:]
    }

    private final class Shard: Sendable {
        let contents = Mutex(Contents())
    }

    private static let shardCount = 64
    private let shards = (0..<shardCount).map { _ in Shard() }

    func add(_ id: SessionID, to account: UInt64) {
        shard(of: account).contents.withLock { contents in
            if contents.first[account] == nil {
                contents.first[account] = id.value
            } else {
                contents.more[account, default: []].append(id.value)
            }
        }
    }

    func remove(_ id: SessionID, from account: UInt64) {
        shard(of: account).contents.withLock { contents in
            if contents.first[account] == id.value {
                contents.first[account] = contents.more[account]?.popLast()
            } else if let index = contents.more[account]?.firstIndex(of: id.value) {
                contents.more[account]?.remove(at: index)
            }
            if contents.more[account]?.isEmpty == true { contents.more[account] = nil }
        }
    }

    func sessions(of account: UInt64) -> [SessionID] {
        shard(of: account).contents.withLock { contents in
            guard let first = contents.first[account] else { return [] }
            return ([first] + (contents.more[account] ?? [])).map { SessionID($0) }
        }
    }

    private func shard(of account: UInt64) -> Shard {
        shards[Int(truncatingIfNeeded: account) & (Self.shardCount - 1)]
    }
}
