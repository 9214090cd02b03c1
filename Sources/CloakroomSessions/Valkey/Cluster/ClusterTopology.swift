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
///   redirects. Reports that were requested before the last change of the slot do not count.
/// - A slot is used and trusted while there is a link to its owner, and a majority of the primaries has confirmed all
///   slots of this owner on questions sent within ``trustPeriod``. This limits the use of stale data if a server is
///   separated from the others, was suspended, or does not report that a slot was moved.
/// - A new link is used after a majority has confirmed its server since. Before, and after each change of a slot's
///   server, data that the server may have lost is written again, except for a plain move between two primaries.
/// - A slot that a server is moving (`ASK`) is not trusted until it is moved, or is not redirected any more.
/// - A slot is reported as not trusted before anything else changes, and as trusted as the last step.
struct ClusterTopology: Sendable {
    /// The time for which slots are trusted after a majority has confirmed them.
    static let trustPeriod = TimeAmount.seconds(3)
    /// The maximum number of primaries, and of connections.
    static let maximumLinks = 128
    /// The mean time between two questions to the same primary.
    private static let questionInterval = TimeAmount.seconds(1)
    /// The same while a primary is unreachable, for ``hurry``.
    private static let hurriedInterval = TimeAmount.milliseconds(250)
    private static let hurry = TimeAmount.seconds(15)
    /// The minimum time between two questions to the same primary.
    private static let shortestInterval = TimeAmount.milliseconds(50)
    /// The time without a redirection after which a slot counts as not being moved.
    private static let movePeriod = TimeAmount.seconds(2)
    /// The time after which a link without slots is closed.
    private static let idlePeriod = TimeAmount.seconds(60)
    /// The time for which commands wait for a new link to be confirmed.
    private static let holdPeriod = TimeAmount.seconds(1)
    /// The time after which a server counts as a primary to which slots are moved, not as a promoted replica.
    private static let establishmentPeriod = TimeAmount.seconds(30)
    /// The time without a majority after which the seeds are asked.
    private static let isolationPeriod = TimeAmount.seconds(1)
    /// A link that lasted this long resets the back-off.
    private static let resetPeriod = TimeAmount.seconds(5)
    private static let reconnectDelays = ExponentialBackoff(
        initial: .milliseconds(50), maximum: .seconds(5), jitter: 1)
    private static let seedDelays = ExponentialBackoff(
        initial: .milliseconds(100), maximum: .seconds(2), jitter: 0.5)

    /// What to do, in this order.
    enum Action: Sendable, Equatable {
        /// Connect to a primary, and report the result with ``ClusterTopology/linkReady(_:now:)`` or
        /// ``ClusterTopology/linkLost(_:now:)``.
        case connect(ClusterNode)
        /// Close a connection that is not needed any more.
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

    /// What to do with commands for a slot.
    enum Destination: Sendable, Equatable {
        case link(HostAndPort)
        /// The slot is about to get a link.
        case wait
        /// There is no link.
        case none
        /// There is a link, but its server is not confirmed.
        case inDoubt
    }

    private typealias NodeID = Int32
    private static let nobody: NodeID = -1

    private enum Link { case idle, connecting, ready }

    /// What a primary has reported.
    private struct View {
        /// The owner of each slot.
        var owners: [NodeID]
        /// When it was requested.
        var askedAt: NIODeadline
    }

    /// A server that is connected to, or that has slots.
    private struct Member {
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
        /// When it last received slots by a decision, which counts as a confirmation.
        var adoptedAt: NIODeadline?
        var slots = 0
        /// Since when it has slots; 0 if it had them at the start.
        var primarySince = NIODeadline.uptimeNanoseconds(0)
        /// When the current link became ready.
        var readyAt = NIODeadline.uptimeNanoseconds(0)
        /// Whether its slots are confirmed.
        var isTrusted = false
        /// Whether commands for its slots wait for the first confirmation.
        var isHeld = false
        /// When it last had slots or a redirected command.
        var lastUsedAt: NIODeadline
        /// Whether it was connected to for a redirected command, and may get slots.
        var isExpected = false
    }

    private struct Slot {
        var owner = ClusterTopology.nobody
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

    private let seeds: [HostAndPort]
    private var ids: [HostAndPort: NodeID] = [:]
    private var lastID: NodeID = 0
    private var members: [NodeID: Member] = [:]
    private var slots = [Slot](repeating: Slot(), count: HashSlot.count)
    /// The primaries whose majority decides.
    private var voters: Set<NodeID> = []
    private var replicas: [HostAndPort] = []
    /// The slots that are being moved, with the time until which they count as such.
    private var moving: [Int: NIODeadline] = [:]
    private var lastRestoration: UInt32 = 0
    private var isolatedSince: NIODeadline?
    private var hurriesUntil = NIODeadline.uptimeNanoseconds(0)
    private var seed: (isAsked: Bool, failures: Int, next: Int, retryAt: NIODeadline)
    private var random: UInt64
    private var actions: [Action] = []

    /// - Parameters:
    ///   - seeds: At least one address.
    ///   - random: The seed of the jitter.
    init(seeds: [HostAndPort], random: UInt64, now: NIODeadline) {
        self.seeds = seeds
        self.random = random
        seed = (false, 0, 0, now)
    }

    /// Whether at least one slot has an owner.
    var hasOwners: Bool { members.values.contains { $0.slots > 0 } }
}

// MARK: Events

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
                actions.append(.disconnect(member.node.address))
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
        members[id]?.failures = failures
        members[id]?.retryAt = now + delay
        if member.slots > 0 {
            stopUsing(id, .none)
            if wasReady {
                for slot in HashSlot.all where slots[slot].owner == id {
                    slots[slot].hadOutage = true
                    slots[slot].needsRestoring = true
                }
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
            adopt(reportedBy: id, report, now)
            confirm(by: id)
            for member in members.keys.sorted() { checkTrust(of: member, now) }
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
        askSoon(source, now)
        askSoon(target, now)
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

    /// A restoration is complete.
    mutating func restored(_ number: UInt32, now: NIODeadline) -> [Action] {
        guard number > 0 else { return [] }
        let restored = ranges { $0.restoration == number }
        guard let first = restored.first, let member = members[slots[first.lowerBound].owner] else { return [] }
        for slot in restored.joined() {
            slots[slot].restoration = 0
            slots[slot].needsRestoring = false
            slots[slot].isServed = true
        }
        actions.append(.route(restored, .link(member.node.address)))
        for range in restored { trustIfConfirmed(range, now) }
        return take()
    }

    private mutating func take() -> [Action] {
        defer { actions = [] }
        return actions
    }
}

// MARK: Owners

extension ClusterTopology {
    /// Adopts what a primary reports and a majority confirms, or what it reports of its own slots.
    private mutating func adopt(reportedBy id: NodeID, _ report: ClusterSlots, _ now: NIODeadline) {
        guard let view = members[id]?.view else { return }
        var failovers: [(Range<Int>, NodeID)] = []
        var confirmedAt = now
        var moves: [(Range<Int>, NodeID)] = []
        for slot in HashSlot.all {
            let (said, known) = (view.owners[slot], slots[slot].owner)
            guard said != known, said != Self.nobody, slots[slot].changedAt < view.askedAt else { continue }
            if known == id {
                if denies(said, slot, now) {
                    // The owner disclaims the slot, and the other one does not know of it yet.
                    disclaim(slot, for: said, now)
                } else {
                    Self.append(slot, said, to: &moves)
                }
            } else if said == id, let owner = members[known]?.view, slots[slot].changedAt < owner.askedAt,
                owner.owners[slot] == id
            {
                Self.append(slot, said, to: &moves)
            } else if let time = confirmation(of: slot, owner: said, now) {
                confirmedAt = min(confirmedAt, time)
                Self.append(slot, said, to: &failovers)
            }
        }
        guard !moves.isEmpty || !failovers.isEmpty else { return }
        let receivers = Set((moves + failovers).map(\.1))
        for primary in report.primaries where ids[primary.address].map(receivers.contains) == true {
            _ = memberIfRoom(for: primary, now)
        }
        change(moves.filter { members[$0.1] != nil }, isFailover: false, since: view.askedAt, now)
        change(failovers.filter { members[$0.1] != nil }, isFailover: true, since: confirmedAt, now)
        // A primary that was replaced before it had a slot here has no vote.
        let named = Set(report.primaries.compactMap { ids[$0.address] })
        voters = voters.filter { named.contains($0) || (members[$0]?.slots ?? 0) > 0 }
    }

    /// Whether a server has reported recently that it does not have a slot.
    private func denies(_ id: NodeID, _ slot: Int, _ now: NIODeadline) -> Bool {
        guard let view = members[id]?.view, now - view.askedAt <= Self.trustPeriod else { return false }
        return view.owners[slot] != id
    }

    private mutating func disclaim(_ slot: Int, for id: NodeID, _ now: NIODeadline) {
        distrust([slot..<(slot + 1)])
        moving[slot] = now + Self.movePeriod
        askSoon(id, now)
    }

    /// Since when a majority of the primaries reports an owner, and the owner does not deny it.
    private func confirmation(of slot: Int, owner: NodeID, _ now: NIODeadline) -> NIODeadline? {
        func isCurrent(_ view: View) -> Bool {
            slots[slot].changedAt < view.askedAt && now - view.askedAt <= Self.trustPeriod
        }
        if denies(owner, slot, now) { return nil }
        var (count, since) = (0, now)
        for voter in voters {
            guard let view = members[voter]?.view, isCurrent(view), view.owners[slot] == owner else { continue }
            count += 1
            since = min(since, view.askedAt)
        }
        return 2 * count > voters.count ? since : nil
    }

    /// Gives slots to other servers.
    /// - Parameter since: When the change was confirmed.
    private mutating func change(
        _ changes: [(Range<Int>, NodeID)], isFailover: Bool, since: NIODeadline, _ now: NIODeadline
    ) {
        guard !changes.isEmpty else { return }
        distrust(changes.map(\.0))
        for (range, owner) in changes {
            // A promoted replica was no primary before. Its slots may lack the last writes.
            let isPlain = !isFailover && isEstablished(owner, now)
            for slot in range {
                let previous = slots[slot].owner
                if previous != Self.nobody {
                    members[previous]?.slots -= 1
                    // A primary that has given away its last slot has no vote. One that never had a slot here keeps it.
                    if members[previous]?.slots == 0 { voters.remove(previous) }
                    if !isPlain {
                        slots[slot].needsRestoring = true
                        slots[slot].hadOutage = true
                    }
                    if members[owner]?.slots == 0 { members[owner]?.primarySince = now }
                }
                slots[slot].owner = owner
                slots[slot].changedAt = now
                slots[slot].isServed = false
                slots[slot].restoration = 0
                moving[slot] = nil
                members[owner]?.slots += 1
                members[owner]?.isExpected = false
            }
            let adoptedAt = members[owner]?.adoptedAt ?? since
            members[owner]?.adoptedAt = max(adoptedAt, since)
            voters.insert(owner)
        }
        for owner in Set(changes.map(\.1)).sorted() {
            guard let member = members[owner] else { continue }
            let given = changes.filter { $0.1 == owner }.map(\.0)
            actions.append(.route(given, .wait))
            switch member.link {
            case .ready: for range in given { serve(range, of: owner, now) }
            case .connecting: break
            case .idle: connect(owner)
            }
        }
    }

    private func isEstablished(_ id: NodeID, _ now: NIODeadline) -> Bool {
        guard let member = members[id], member.slots > 0 else { return false }
        return member.primarySince + Self.establishmentPeriod <= now
    }

    /// Sends the commands for a server's slots to its link, which is ready, after restoring them where necessary.
    private mutating func serve(_ range: Range<Int>, of id: NodeID, _ now: NIODeadline) {
        guard let member = members[id], member.slots > 0, member.link == .ready, isConfirmed(id, now) else { return }
        members[id]?.isTrusted = true
        members[id]?.isHeld = false
        var (fresh, stale) = (SlotRanges(), SlotRanges())
        let number = lastRestoration &+ 1 == 0 ? 1 : lastRestoration &+ 1
        for slot in range where slots[slot].owner == id && !slots[slot].isServed && slots[slot].restoration == 0 {
            if slots[slot].needsRestoring {
                slots[slot].restoration = number
                stale.append(slot)
            } else {
                slots[slot].isServed = true
                fresh.append(slot)
            }
        }
        if !stale.ranges.isEmpty {
            lastRestoration = number
            actions.append(.route(stale.ranges, .wait))
            actions.append(.restore(number, stale.ranges, member.node.address))
        }
        if !fresh.ranges.isEmpty {
            actions.append(.route(fresh.ranges, .link(member.node.address)))
            for range in fresh.ranges { trustIfConfirmed(range, now) }
        }
    }

    private static func append(_ slot: Int, _ owner: NodeID, to changes: inout [(Range<Int>, NodeID)]) {
        if let last = changes.last, last.1 == owner, last.0.upperBound == slot {
            changes[changes.count - 1].0 = last.0.lowerBound..<(slot + 1)
        } else {
            changes.append((slot..<(slot + 1), owner))
        }
    }

    private func ranges(where matches: (Slot) -> Bool) -> [Range<Int>] {
        var ranges = SlotRanges()
        for slot in HashSlot.all where matches(slots[slot]) { ranges.append(slot) }
        return ranges.ranges
    }
}

// MARK: Trust

extension ClusterTopology {
    /// Records which servers' slots a primary confirms.
    private mutating func confirm(by id: NodeID) {
        guard let view = members[id]?.view else { return }
        var denied: Set<NodeID> = []
        for slot in HashSlot.all where view.owners[slot] != slots[slot].owner { denied.insert(slots[slot].owner) }
        for (confirmed, member) in members
        where member.slots > 0 && !denied.contains(confirmed) && member.readyAt <= view.askedAt {
            members[confirmed]?.confirmations[id] = view.askedAt
        }
    }

    /// Whether a majority of the primaries has confirmed the slots of a server recently.
    private func isConfirmed(_ id: NodeID, _ now: NIODeadline) -> Bool {
        guard let member = members[id] else { return false }
        func isRecent(_ time: NIODeadline?) -> Bool { time.map { now - $0 < Self.trustPeriod } ?? false }
        if isRecent(member.adoptedAt) { return true }
        return 2 * voters.count { isRecent(member.confirmations[$0]) } > voters.count
    }

    /// Compares the trust in a server with its confirmations.
    private mutating func checkTrust(of id: NodeID, _ now: NIODeadline) {
        guard let member = members[id], member.slots > 0, member.link == .ready else { return }
        let isConfirmed = isConfirmed(id, now)
        if isConfirmed, !member.isTrusted {
            serve(HashSlot.all, of: id, now)
        } else if !isConfirmed, member.isTrusted || member.isHeld && member.readyAt + Self.holdPeriod <= now {
            stopUsing(id, .inDoubt)
        }
    }

    /// Stops the use of a server's slots.
    private mutating func stopUsing(_ id: NodeID, _ destination: Destination) {
        let owned = ranges { $0.owner == id }
        distrust(owned)
        for slot in owned.joined() {
            slots[slot].isServed = false
            slots[slot].restoration = 0
        }
        members[id]?.isTrusted = false
        members[id]?.isHeld = false
        actions.append(.route(owned, destination))
    }

    private mutating func distrust(_ changed: [Range<Int>]) {
        var lost = SlotRanges()
        for slot in changed.joined() where slots[slot].isTrusted {
            slots[slot].isTrusted = false
            lost.append(slot)
        }
        if !lost.ranges.isEmpty { actions.append(.distrust(lost.ranges)) }
    }

    /// Reports slots as trusted, if they are.
    private mutating func trustIfConfirmed(_ range: Range<Int>, _ now: NIODeadline) {
        var (plain, recovered) = (SlotRanges(), SlotRanges())
        var confirmed: (id: NodeID, isTrusted: Bool) = (Self.nobody, false)
        for slot in range where slots[slot].isServed && !slots[slot].isTrusted && moving[slot] == nil {
            let owner = slots[slot].owner
            if confirmed.id != owner {
                confirmed = (owner, members[owner]?.link == .ready && isConfirmed(owner, now))
            }
            guard confirmed.isTrusted else { continue }
            slots[slot].isTrusted = true
            if slots[slot].hadOutage { recovered.append(slot) } else { plain.append(slot) }
            slots[slot].hadOutage = false
        }
        if !plain.ranges.isEmpty { actions.append(.trust(plain.ranges, afterOutage: false)) }
        if !recovered.ranges.isEmpty { actions.append(.trust(recovered.ranges, afterOutage: true)) }
    }
}

// MARK: Servers

extension ClusterTopology {
    private mutating func connect(_ id: NodeID) {
        guard let member = members[id], member.link == .idle else { return }
        members[id]?.link = .connecting
        actions.append(.connect(member.node))
    }

    private mutating func ask(_ id: NodeID, _ now: NIODeadline) {
        guard let member = members[id] else { return }
        members[id]?.isAsked = true
        members[id]?.askedAt = now
        let interval = now < hurriesUntil ? Self.hurriedInterval : Self.questionInterval
        let next = now + jittered(interval)
        members[id]?.nextQuestionAt = next
        actions.append(.ask(member.node.address))
    }

    /// Moves the next question to a primary forward.
    private mutating func askSoon(_ id: NodeID, _ now: NIODeadline) {
        guard let member = members[id], member.link == .ready else { return }
        let soon = max(now, member.askedAt) + jittered(Self.shortestInterval)
        members[id]?.nextQuestionAt = min(member.nextQuestionAt, soon)
    }

    /// Asks the seeds while no majority of the primaries is reachable.
    private mutating func checkIsolation(_ now: NIODeadline) {
        let ready = voters.count { members[$0]?.link == .ready }
        guard 2 * ready <= voters.count else {
            isolatedSince = nil
            return
        }
        let since = isolatedSince ?? now
        isolatedSince = since
        guard !seed.isAsked, seed.retryAt <= now, voters.isEmpty || since + Self.isolationPeriod <= now else { return }
        let addresses = seeds + members.keys.sorted().compactMap { members[$0]?.node.address } + replicas
        seed.isAsked = true
        seed.next = (seed.next + 1) % addresses.count
        actions.append(.askSeed(addresses[(seed.next + addresses.count - 1) % addresses.count]))
    }

    private mutating func seedFailed(_ now: NIODeadline) {
        seed.failures += 1
        // Other addresses are tried immediately, once.
        let known = seeds.count + members.count + replicas.count
        let isFirstRound = seed.failures < known
        seed.retryAt =
            isFirstRound
            ? now
            : now + TimeAmount(Self.seedDelays.delay(afterFailures: seed.failures - known + 1, random: nextRandom()))
    }

    /// The owner of each slot in a report.
    private mutating func owners(in report: ClusterSlots) -> [NodeID] {
        if ids.count > 4 * ClusterSlots.maximumNodes { forgetUnused() }
        let names = report.primaries.map { id(of: $0.address) }
        for (id, primary) in zip(names, report.primaries) where primary.name != nil {
            members[id]?.node.name = primary.name
        }
        return report.owners.map { $0 == ClusterSlots.none ? Self.nobody : names[Int($0)] }
    }

    private mutating func id(of address: HostAndPort) -> NodeID {
        if let id = ids[address] { return id }
        lastID += 1
        ids[address] = lastID
        return lastID
    }

    private mutating func member(for node: ClusterNode, _ now: NIODeadline) -> NodeID {
        let id = id(of: node.address)
        if members[id] == nil {
            members[id] = Member(node: node, retryAt: now, nextQuestionAt: now, lastUsedAt: now)
        } else if let name = node.name {
            members[id]?.node.name = name
        }
        return id
    }

    /// The member for a server that another one names; `nil` if there are too many.
    private mutating func memberIfRoom(for node: ClusterNode, _ now: NIODeadline) -> NodeID? {
        if let id = ids[node.address], members[id] != nil { return member(for: node, now) }
        guard members.count < Self.maximumLinks else { return nil }
        return member(for: node, now)
    }

    private mutating func memberIfRoom(for address: HostAndPort, _ now: NIODeadline) -> NodeID? {
        memberIfRoom(for: ClusterNode(address: address), now)
    }

    private mutating func forget(_ id: NodeID) {
        if let member = members.removeValue(forKey: id) { ids[member.node.address] = nil }
        for other in members.keys { members[other]?.confirmations[id] = nil }
    }

    /// Forgets the names of servers that are not members. Reports name them by number, so these are requested again.
    private mutating func forgetUnused() {
        ids = ids.filter { members[$0.value] != nil }
        for id in members.keys { members[id]?.view = nil }
    }

    /// An interval of 75 to 125 %.
    private mutating func jittered(_ interval: TimeAmount) -> TimeAmount {
        .nanoseconds(interval.nanoseconds * 3 / 4 + Int64(nextRandom() >> 33) % max(1, interval.nanoseconds / 2))
    }

    /// SplitMix64.
    private mutating func nextRandom() -> UInt64 {
        random &+= 0x9e37_79b9_7f4a_7c15
        var mixed = (random ^ random >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}
