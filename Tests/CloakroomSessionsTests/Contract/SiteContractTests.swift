import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store for several sites.
@Suite("Every session store, for several sites", .timeLimit(.minutes(3)))
struct SiteContractTests {
    private let start = Sample.start
    private static let admin = SiteTag("admin")

    private func at(_ site: SiteTag, _ ticket: SessionTicket) -> SessionTicket {
        var ticket = ticket
        ticket.site = site
        return ticket
    }

    private func new(_ number: Int, at site: SiteTag) -> NewSession {
        var new = Sample.new(number)
        new.site = site
        return new
    }

    @Test(
        "Rule 104: a ticket of another site is unknown: it finds, loads and ends no session",
        arguments: SessionStoreCase.all)
    func ticketOfAnotherSiteIsUnknown(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            for site in [SiteTag.main, Self.admin] {
                let (ticket, made) = try await store.create(new(1, at: site), now: start)
                expect(ticket.site, equals: site)
                for other in [SiteTag.main, Self.admin, SiteTag("Admin"), SiteTag("ops")] where other != site {
                    let foreign = at(other, ticket)
                    expect(foreign.cookieValue, equals: ticket.cookieValue)
                    try await expect(store.lookup(foreign, at: start).reason, equals: .noSession)
                    try await expect(store.load(foreign, now: start).reason, equals: .noSession)
                    try await expect(store.reload(foreign, now: start).reason, equals: .noSession)
                    try await expect(store.end(foreign, reason: .signedOut, now: start) == nil)
                }
                try await expect(store.lookup(ticket, at: start).session?.key, equals: made.key)
                try await expect(store.end(ticket, reason: .signedOut, now: start)?.key, equals: made.key)
                try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
            }
        }
    }

    @Test("A session of a site is refreshed under its ticket, on every replica", arguments: SessionStoreCase.shared)
    func refresh(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, two in
            let (ticket, session) = try await one.create(new(1, at: Self.admin), now: start)
            let lease = try await require(one.lease(session.key, for: .seconds(30), now: start).lease)
            let saved = try await one.save(
                SessionUpdate(tokens: Sample.tokens(2)), ticket: ticket, over: session, under: lease, now: start)
            expect(saved.session?.version, equals: session.version + 1)
            try await expect(two.reload(ticket, now: start).session?.tokens, equals: Sample.tokens(2))
            try await expect(two.reload(at(.main, ticket), now: start).reason, equals: .noSession)
        }
    }

    @Test("The sessions of an account are listed and ended over all sites", arguments: SessionStoreCase.all)
    func account(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let (ticket, _) = try await store.create(new(1, at: Self.admin), now: start)
            let (other, _) = try await store.create(new(1, at: .main), now: start)
            try await expect(store.sessions(of: Sample.account(1), now: start).count, equals: 2)
            try await expect(store.takeAll(.account(Sample.account(1)), reason: .revoked, now: start).count, equals: 2)
            for ticket in [ticket, other] {
                try await expect(store.reload(ticket, now: start).reason, equals: .revoked)
            }
        }
    }

    @Test("The keys of stored sessions never change: those of the default site are SHA-256 of the ticket alone")
    func keys() throws {
        func text(_ key: SessionKey) -> String {
            key.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        // Base64url of the bytes 0 to 31.
        let value = Array("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".utf8)
        let parsed = SessionTicket(cookieValue: value.span)
        let ticket = try require(parsed)
        expect(
            text(SessionKey(ticket)), equals: "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd")
        expect(Self.admin.value, equals: 0x45ef_5b27_8a0b_6d34)
        expect(
            text(SessionKey(at(Self.admin, ticket))),
            equals: "cea1cb3600ac2b236a5d7a8bed3aefae5fe78b19d9b738f7b7c5f61d3111fb39")
    }

    @Test("Rule 104: a record that is moved to the key of another site does not open there")
    func movedRecord() throws {
        let sealing = SessionSealer(secrets: Sample.secrets)
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator, site: Self.admin)
        let session = Session(
            key: SessionKey(ticket), user: Sample.user(1), tokens: Sample.tokens(1), createdAt: start,
            expiresAt: start + .seconds(60), lastUsedAt: start)
        var record = try sealing.seal(session, ticket: ticket)
        guard case .opened = sealing.open(record, ticket: ticket) else {
            Issue.record("the record does not open with its own ticket")
            return
        }
        for other in [SiteTag.main, SiteTag("ops")] {
            let foreign = at(other, ticket)
            record.key = SessionKey(foreign)
            if case .opened = sealing.open(record, ticket: foreign) { Issue.record("the record opens at \(other)") }
        }
    }
}
