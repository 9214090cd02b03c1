import CloakroomCore
import NIOCore

/// Decides which server has which slots, which servers to connect to, and which slots are trusted: whether cached data
/// may be used, because the server reports changes to it.
///
/// A pure state machine: events in, actions out. The rules:
///
/// - At the start, and when a majority of the primaries is unreachable, a seed names the primaries. They are connected
///   to and asked themselves.
/// - A slot has the owner that a majority of the primaries reports, or the owner to which the slot's previous owner
///   redirects. Reports that were requested before the last change of the slot, or within ``gossipPeriod`` after a
///   redirection, do not count.
/// - A server that gets slots has a vote once a majority names it, or with the last slot of a primary that had one. So one
///   server cannot make up a majority by redirecting to others.
/// - A slot is used and trusted while there is a link to its owner, and a majority of the primaries has confirmed all
///   slots of this owner on questions sent within ``trustPeriod``. This limits the use of stale data if a server is
///   separated from the others, was suspended, or does not report that a slot was moved.
/// - A new link is used after a majority has confirmed its server since. Before, and after each change of a slot's
///   server, data that the server may have lost is written again, except for a plain move between two primaries.
/// - A slot that a server is moving (`ASK`) is not trusted until it is moved, or is not redirected any more.
/// - A slot is reported as not trusted before anything else changes, and as trusted as the last step.
struct ClusterTopology: Sendable {
    /// The time for which slots are trusted after a majority has confirmed them.
    static let trustPeriod: TimeAmount = .seconds(3)
    /// The maximum number of primaries, and of connections.
    static let maximumLinks = 128
    /// The maximum number of servers when a majority confirms new ones: each primary may be replaced while its predecessor
    /// is still a member.
    static let maximumMembers = 2 * maximumLinks
    /// The maximum number of unknown servers per second to which redirections lead.
    static let maximumAdditions = 8
    /// The maximum number of servers without a vote to which redirections lead: the others have room.
    static let maximumUnconfirmed = 32
    /// The mean time between two questions to the same primary.
    static let questionInterval = TimeAmount.seconds(1)
    /// The same while a primary is unreachable, for ``hurry``.
    static let hurriedInterval = TimeAmount.milliseconds(250)
    static let hurry = TimeAmount.seconds(15)
    /// The minimum time between two questions to the same primary.
    static let shortestInterval = TimeAmount.milliseconds(50)
    /// The time without a redirection after which a slot counts as not being moved.
    static let movePeriod = TimeAmount.seconds(2)
    /// The time after a redirection in which the other servers may not know of it yet.
    static let gossipPeriod = TimeAmount.milliseconds(200)
    /// The time after which a link without slots is closed.
    static let idlePeriod = TimeAmount.seconds(60)
    /// The time for which commands wait for a new link to be confirmed.
    static let holdPeriod = TimeAmount.seconds(1)
    /// The time after which a server counts as a primary to which slots are moved, not as a promoted replica.
    static let establishmentPeriod = TimeAmount.seconds(30)
    /// The time without a majority after which the seeds are asked.
    static let isolationPeriod = TimeAmount.seconds(1)
    /// A link that lasted this long resets the back-off.
    static let resetPeriod = TimeAmount.seconds(5)
    static let reconnectDelays = ExponentialBackoff(
        initial: .milliseconds(50), maximum: .seconds(5), jitter: 1)
    static let seedDelays = ExponentialBackoff(
        initial: .milliseconds(100), maximum: .seconds(2), jitter: 0.5)

    /// What to do, in this order.
    enum Action: Sendable, Equatable {
        /// Connect to a primary, and report the result with ``ClusterTopology/linkReady(_:now:)`` or
        /// ``ClusterTopology/linkLost(_:now:)``.
        case connect(ClusterNode)
        /// A server is not needed any more: close its connection, if there is one.
        case disconnect(HostAndPort)
        /// Ask a primary over its link.
        case ask(HostAndPort)
        /// Ask any server over a connection of its own.
        case askSeed(HostAndPort)
        /// Report slots as not trusted.
        case distrust([Range<Int>])
        /// Handle commands for slots in this way from now on.
        case route([Range<Int>], Destination)
        /// Write again what the previous server may have lost; then call ``ClusterTopology/restored(_:now:)``.
        case restore(UInt32, [Range<Int>], HostAndPort)
        /// Report slots as trusted.
        case trust([Range<Int>], afterOutage: Bool)
    }

    typealias Destination = SlotRoute<HostAndPort>

    typealias NodeID = Int32
    static let noNode: NodeID = -1

    enum Link { case idle, connecting, ready }

    /// What a primary has reported.
    struct View {
        /// The owner of each slot.
        var owners: [NodeID]
        /// When it was requested.
        var askedAt: NIODeadline
    }

    /// A server that is connected to, or that has slots.
    struct Member {
        var node: ClusterNode
        var link = Link.idle
        var failures = 0
        var retryAt: NIODeadline
        var isAsked = false
        var askedAt = NIODeadline.uptimeNanoseconds(0)
        var nextQuestionAt: NIODeadline
        var view: View?
        /// When each primary last confirmed all slots of this server.
        var confirmations: [NodeID: NIODeadline] = [:]
        /// Until when ``confirmations`` are those of a majority of the voters of that number, if none is added.
        var confirmed = (until: NIODeadline.uptimeNanoseconds(0), by: UInt64(0))
        /// When it received its first slots, or slots that a majority confirmed; this counts as a confirmation.
        var adoptedAt: NIODeadline?
        var slots = 0
        /// Since when it has slots; 0 if it had them at the start.
        var primarySince = NIODeadline.uptimeNanoseconds(0)
        /// When the current link became ready.
        var readyAt = NIODeadline.uptimeNanoseconds(0)
        /// Whether its slots are confirmed.
        var isTrusted = false
        /// Whether slots were not served or not trusted because it was not confirmed at that moment.
        var isIncomplete = false
        /// Whether commands for its slots wait for the first confirmation.
        var isHeld = false
        /// The number of the restoration in progress, or 0.
        var restoration: UInt32 = 0
        /// Whether slots wait until it is complete, to be restored after it.
        var hasWaitingSlots = false
        /// When it last had slots or a redirected command.
        var lastUsedAt: NIODeadline
        /// Whether it was connected to for a redirected command, and may get slots.
        var isExpected = false
        /// Whether a confirmation makes a difference.
        var needsTrust: Bool { slots > 0 && (!isTrusted || isIncomplete) }
    }

    struct Slot {
        var owner = ClusterTopology.noNode
        /// Reports that were requested until then do not count for this slot.
        var changedAt = NIODeadline.uptimeNanoseconds(0)
        /// The number of the restoration in progress, or 0.
        var restoration: UInt32 = 0
        var isServed = false
        var isTrusted = false
        /// Whether its owner was lost since it was last trusted.
        var hadOutage = false
        /// Whether its data may be from another server than the last one used here.
        var needsRestoring = false
    }

    let seeds: [HostAndPort]
    var ids: [HostAndPort: NodeID] = [:]
    var lastID: NodeID = 0
    var members: [NodeID: Member] = [:]
    var slots = [Slot](repeating: Slot(), count: HashSlot.count)
    /// The primaries whose majority decides.
    var voters: Set<NodeID> = [] {
        didSet { votersNumber &+= 1 }
    }
    /// Another one after each change of ``voters``.
    var votersNumber: UInt64 = 0
    /// How often confirmations were counted: what checking the trust costs.
    var countedMajorities = 0
    var replicas: [HostAndPort] = []
    /// The slots that are being moved, with the time until which they count as such.
    var moving: [Int: NIODeadline] = [:]
    var lastRestoration: UInt32 = 0
    var isolatedSince: NIODeadline?
    /// Whether a primary or all seeds were unreachable. Slots that get their first owner after that may have had another
    /// one meanwhile, as after an outage.
    var hadFailure = false
    var hurriesUntil = NIODeadline.uptimeNanoseconds(0)
    /// The servers that redirections have added in the current second.
    var additions: (since: NIODeadline, count: Int)
    var seed: (isAsked: Bool, failures: Int, next: Int, retryAt: NIODeadline)
    var random: UInt64
    var actions: [Action] = []

    /// - Parameters:
    ///   - seeds: At least one address.
    ///   - random: The seed of the jitter.
    init(seeds: [HostAndPort], random: UInt64, now: NIODeadline) {
        self.seeds = seeds
        self.random = random
        additions = (now, 0)
        seed = (false, 0, 0, now)
    }
}

extension ClusterTopology {
    /// Time has passed. Expected at least every 100 ms.
    mutating func tick(now: NIODeadline) -> [Action] {
        for id in members.keys.sorted() {
            guard let member = members[id] else { continue }
            let isNeeded = voters.contains(id) || member.slots > 0
            if isNeeded { members[id]?.lastUsedAt = now }
            switch member.link {
            case .idle where isNeeded || member.isExpected && member.lastUsedAt + Self.idlePeriod > now:
                if member.retryAt <= now { connect(id) }
            case .idle: forget(id)
            case .connecting: break
            case .ready where !isNeeded && member.lastUsedAt + Self.idlePeriod <= now:
                forget(id)
            case .ready:
                if !member.isAsked, member.nextQuestionAt <= now { ask(id, now) }
            }
        }
        for (slot, end) in moving.sorted(by: { $0.key < $1.key }) where end <= now {
            moving[slot] = nil
            trustIfConfirmed(slot..<(slot + 1), now)
        }
        for id in members.keys.sorted() { checkTrust(of: id, now) }
        checkIsolation(now)
        return take()
    }

    /// A link is ready for commands.
    mutating func linkReady(_ address: HostAndPort, now: NIODeadline) -> [Action] {
        guard let id = ids[address], members[id] != nil else { return [.disconnect(address)] }
        members[id]?.link = .ready
        members[id]?.isAsked = false
        members[id]?.readyAt = now
        members[id]?.confirmations = [:]
        members[id]?.confirmed.until = .uptimeNanoseconds(0)
        members[id]?.isTrusted = false
        ask(id, now)
        for other in members.keys.sorted() where other != id { askSoon(other, now) }
        checkTrust(of: id, now)
        if let member = members[id], member.slots > 0, !member.isTrusted {
            members[id]?.isHeld = true
            actions.append(.route(ranges { $0.owner == id }, .wait))
        }
        return take()
    }

    /// A link was lost, or could not be established.
    mutating func linkLost(_ address: HostAndPort, now: NIODeadline) -> [Action] {
        guard let id = ids[address], let member = members[id] else { return [] }
        let wasReady = member.link == .ready
        let hasLasted = wasReady && member.readyAt + Self.resetPeriod <= now
        let failures = hasLasted ? 1 : member.failures + 1
        let delay = TimeAmount(Self.reconnectDelays.delay(afterFailures: failures, random: nextRandom()))
        members[id]?.link = .idle
        members[id]?.isAsked = false
        members[id]?.view = nil
        members[id]?.restoration = 0
        members[id]?.hasWaitingSlots = false
        members[id]?.failures = failures
        members[id]?.retryAt = now + delay
        hadFailure = true
        if member.slots > 0 {
            stopUsing(id, .none)
            for slot in HashSlot.all where slots[slot].owner == id {
                slots[slot].hadOutage = true
                if wasReady { slots[slot].needsRestoring = true }
            }
            // Another server may have replaced this one in the meantime: only later reports count.
            members[id]?.adoptedAt = nil
        }
        if wasReady {
            hurriesUntil = now + Self.hurry
            for other in members.keys.sorted() { askSoon(other, now) }
        }
        checkIsolation(now)
        return take()
    }

    /// A primary replied to a question over its link.
    mutating func answered(_ address: HostAndPort, _ report: ClusterSlots, now: NIODeadline) -> [Action] {
        guard let id = ids[address], let member = members[id], member.link == .ready, member.isAsked else { return [] }
        members[id]?.isAsked = false
        let owners = owners(in: report)
        members[id]?.view = View(owners: owners, askedAt: member.askedAt)
        if voters.contains(id) {
            replicas = report.replicas
            // One pass for both: only such slots are adopted, and most reports have none.
            let differing = HashSlot.all.filter { owners[$0] != slots[$0].owner }
            adopt(differing, reportedBy: id, report, now)
            confirm(by: id, except: differing)
            admitVoters(now)
            // Those that are trusted are checked by each tick: a confirmation ends by time. Checking all of them here would
            // cost the cube of the number of primaries each second.
            for member in members.keys.sorted() where members[member]?.needsTrust == true {
                checkTrust(of: member, now)
            }
        }
        return take()
    }

    /// A primary rejected a question, or sent an invalid reply. It is asked again later.
    mutating func notAnswered(_ address: HostAndPort) -> [Action] {
        if let id = ids[address] { members[id]?.isAsked = false }
        return take()
    }

    /// A seed replied.
    mutating func seedAnswered(_ report: ClusterSlots, now: NIODeadline) -> [Action] {
        seed.isAsked = false
        guard let since = isolatedSince, !report.primaries.isEmpty, report.primaries.count <= Self.maximumLinks,
            voters.isEmpty || since + Self.isolationPeriod <= now
        else {
            seedFailed(now)
            return take()
        }
        seed.failures = 0
        // Asked again only if these primaries are unreachable too.
        seed.retryAt = now + .seconds(1)
        reuseNumbers()
        let named = Set(report.primaries.map { member(for: $0, now) })
        guard named != voters else { return take() }
        voters = named
        replicas = report.replicas
        isolatedSince = now
        for id in voters.sorted() {
            switch members[id]?.link {
            case .idle: connect(id)
            case .ready: askSoon(id, now)
            default: break
            }
        }
        return take()
    }

    /// A seed could not be asked.
    mutating func seedNotAnswered(now: NIODeadline) -> [Action] {
        seed.isAsked = false
        seedFailed(now)
        return take()
    }

    /// A server redirected a command, because it does not have the slot.
    mutating func moved(_ slot: Int, to: HostAndPort, by: HostAndPort, now: NIODeadline) -> [Action] {
        guard let source = ids[by], HashSlot.all.contains(slot), slots[slot].owner == source, to != by,
            let target = memberIfRoom(for: to, now)
        else { return take() }
        change([(slot..<(slot + 1), target)], isFailover: false, since: now, now)
        slots[slot].changedAt = now + Self.gossipPeriod
        // More slots may have moved.
        for id in members.keys.sorted() { askSoon(id, now) }
        return take()
    }

    /// A server redirected one command, because it is moving the slot.
    mutating func asking(_ slot: Int, to: HostAndPort, by: HostAndPort, now: NIODeadline) -> [Action] {
        guard let source = ids[by], HashSlot.all.contains(slot), slots[slot].owner == source, to != by,
            let target = memberIfRoom(for: to, now)
        else { return take() }
        distrust([slot..<(slot + 1)])
        moving[slot] = now + Self.movePeriod
        members[target]?.lastUsedAt = now
        members[target]?.isExpected = true
        if members[target]?.link == .idle { connect(target) }
        return take()
    }

    /// A server redirected a command to a server that it cannot name. Its slot is not trusted, as one that is being moved,
    /// until the primaries, which are asked now, name the other server.
    mutating func redirected(_ slot: Int, toUnknownBy sender: HostAndPort, now: NIODeadline) -> [Action] {
        guard let source = ids[sender], HashSlot.all.contains(slot), slots[slot].owner == source else { return take() }
        distrust([slot..<(slot + 1)])
        moving[slot] = now + Self.movePeriod
        for id in members.keys.sorted() { askSoon(id, now) }
        return take()
    }

    /// A restoration is complete.
    mutating func restored(_ number: UInt32, now: NIODeadline) -> [Action] {
        guard number > 0, let (id, member) = members.first(where: { $0.value.restoration == number }) else { return [] }
        members[id]?.restoration = 0
        members[id]?.hasWaitingSlots = false
        // Some may have changed their server, or it was in doubt.
        let restored = ranges { $0.restoration == number }
        for slot in restored.joined() {
            slots[slot].restoration = 0
            slots[slot].needsRestoring = false
            slots[slot].isServed = true
        }
        if !restored.isEmpty { actions.append(.route(restored, .link(member.node.address))) }
        for range in restored { trustIfConfirmed(range, now) }
        if member.hasWaitingSlots { serve([HashSlot.all], of: id, now) }
        return take()
    }

    mutating func take() -> [Action] {
        defer { actions = [] }
        return actions
    }
}
