import CloakroomCore
import Synchronization

/// The sessions of accounts: maps the hash of an account name to session ids.
///
/// The index only returns candidates: the caller compares the account of the session itself. An id is therefore added
/// before its session is inserted and removed after the session was removed, and no lock is held over both.
final class AccountIndex: Sendable {
    private struct Contents {
        /// The first session of each account; nearly all accounts have only one. 16 bytes per slot.
        var first: [UInt64: UInt64] = [:]
        /// The further sessions of accounts that have several.
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

    /// The number of an account's sessions.
    func count(of account: UInt64) -> Int {
        shard(of: account).contents.withLock { contents in
            contents.first[account] == nil ? 0 : 1 + (contents.more[account]?.count ?? 0)
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
