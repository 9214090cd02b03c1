import CloakroomCore
import Synchronization

/// What to do with commands for a slot.
enum SlotRoute<Link: Sendable>: Sendable {
    case link(Link)
    /// The slot is about to get a link. The command is to be sent again shortly.
    case wait
    /// There is no link.
    case none
    /// There is a link, but its server is not confirmed.
    case inDoubt
}

extension SlotRoute: Equatable where Link: Equatable {}

/// The links to which commands are sent, by slot. Read for every command, from any thread.
final class SlotRoutes: Sendable {
    typealias Route = SlotRoute<ValkeyLink>

    private struct State {
        /// The link for all slots, if there is only one server.
        var only: ValkeyLink?
        var links: [HostAndPort: ValkeyLink] = [:]
        /// Empty until a slot of a cluster has one.
        var slots: [Route] = []
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
        return Int(slot) < state.slots.count ? state.slots[Int(slot)] : .none
    }

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
            for slot in state.slots.indices {
                if case .link(let other) = state.slots[slot], other === link { state.slots[slot] = .none }
            }
        }
    }

    /// Sets what happens with commands for slots. A link that is lost by now is none.
    func set(_ slots: [Range<Int>], _ destination: ClusterTopology.Destination) {
        state.withLock { state in
            if state.slots.isEmpty { state.slots = Array(repeating: .none, count: HashSlot.count) }
            let route: Route =
                switch destination {
                case .link(let address): state.links[address].map(Route.link) ?? .none
                case .wait: .wait
                case .none: .none
                case .inDoubt: .inDoubt
                }
            for slot in slots.joined() { state.slots[slot] = route }
        }
    }
}
