import CloakroomCore
import Synchronization

/// The links to which commands are sent, by slot. Read for every command, from any thread.
final class SlotRoutes: Sendable {
    /// Where to send a command.
    enum Route: Sendable {
        case link(ValkeyLink)
        /// The slot is about to get a link. The command is to be sent again shortly.
        case wait
        /// There is no link for the slot.
        case none
        /// The server of the slot is in doubt.
        case inDoubt
    }

    private struct State {
        /// The link for all slots, if there is only one server.
        var only: ValkeyLink?
        var links: [HostAndPort: ValkeyLink] = [:]
        /// The links of the slots; empty until a cluster has one.
        var slots: [ValkeyLink?] = []
        /// Why slots have no link: 0 for none, 1 to wait, 2 in doubt.
        var reasons: [UInt8] = []
    }

    private let state = Mutex(State())

    /// The route of a command.
    /// - Parameter slot: `nil` for any link.
    func route(_ slot: UInt16?) -> Route {
        state.withLock { Self.route(slot, $0) }
    }

    /// The link for all commands, if it is the same one.
    func commonLink(of commands: [ValkeyCommand]) -> ValkeyLink? {
        state.withLock { state in
            if let only = state.only { return only }
            guard let first = commands.first, case .link(let link) = Self.route(first.slot, state) else { return nil }
            for command in commands.dropFirst() {
                guard case .link(let other) = Self.route(command.slot, state), other === link else { return nil }
            }
            return link
        }
    }

    private static func route(_ slot: UInt16?, _ state: State) -> Route {
        if let only = state.only { return .link(only) }
        guard let slot else { return state.links.first.map { .link($0.value) } ?? .none }
        guard Int(slot) < state.slots.count else { return .none }
        if let link = state.slots[Int(slot)] { return .link(link) }
        return switch state.reasons[Int(slot)] {
        case 1: .wait
        case 2: .inDoubt
        default: .none
        }
    }

    /// Sets the link for all slots.
    func setOnly(_ link: ValkeyLink?) {
        state.withLock { $0.only = link }
    }

    /// Makes a link of a cluster available.
    func add(_ link: ValkeyLink) {
        state.withLock { $0.links[link.address] = link }
    }

    /// Removes a link from all slots.
    func remove(_ address: HostAndPort) {
        state.withLock { state in
            guard let link = state.links.removeValue(forKey: address) else { return }
            for slot in state.slots.indices where state.slots[slot] === link { state.slots[slot] = nil }
        }
    }

    /// Sets what happens with commands for slots. A link that is lost by now is none.
    func set(_ slots: [Range<Int>], _ destination: ClusterTopology.Destination) {
        state.withLock { state in
            if state.slots.isEmpty {
                state.slots = Array(repeating: nil, count: HashSlot.count)
                state.reasons = Array(repeating: 0, count: HashSlot.count)
            }
            var link: ValkeyLink?
            var reason: UInt8 = 0
            switch destination {
            case .link(let address): link = state.links[address]
            case .wait: reason = 1
            case .inDoubt: reason = 2
            case .none: break
            }
            for slot in slots.joined() {
                state.slots[slot] = link
                state.reasons[slot] = reason
            }
        }
    }
}
