import CloakroomCore

/// What requests need of their site. Their host determines it.
struct SiteRuntime: Sendable {
    let name: String
    let tag: SiteTag
    let links: LoginLinks
    /// The sources of the sessions that are created at the site.
    let sources: [SessionSource]
    let cookieClearingLine: [UInt8]

    /// - Returns: Empty if there is only one site: then nothing is evaluated.
    static func all(_ configuration: GatewayConfiguration) -> [SiteRuntime] {
        configuration.sites.enumerated().map { index, site in
            let own = configuration.site(index)
            return SiteRuntime(
                name: site.name, tag: site.tag, links: LoginLinks(own.accounts), sources: own.sessionSources,
                cookieClearingLine: SessionCookie(own.session.cookie).clearingLine)
        }
    }
}

extension ConfigSnapshot {
    /// The site of a group of hosts; `nil` if there is only one.
    private func site(ofGroup group: Int) -> SiteRuntime? {
        let index = routeTable.groups.site(of: group)
        return sites.indices.contains(index) ? sites[index] : nil
    }

    /// The name of the site of a group of hosts; `nil` for the default one.
    func siteName(ofGroup group: Int) -> String? {
        guard let name = site(ofGroup: group)?.name, !name.isEmpty else { return nil }
        return name
    }

    /// A ticket of a request as one of the site of its host, so that it is unknown at all others.
    @inline(never)
    func ticket(_ ticket: SessionTicket, ofGroup group: Int) -> SessionTicket {
        var ticket = ticket
        ticket.site = site(ofGroup: group)?.tag ?? .main
        return ticket
    }

    /// The field line that deletes the session cookie.
    func cookieClearingLine(ofGroup group: Int) -> [UInt8] {
        site(ofGroup: group)?.cookieClearingLine ?? cookieClearingLine
    }

    /// Where browsers without a sufficient session are redirected to.
    func links(ofGroup group: Int) -> LoginLinks { site(ofGroup: group)?.links ?? loginLinks }

    /// A lookup of a session at a site. One of a source that the site does not have any more is not valid there, as one of
    /// a source that is removed.
    @inline(never)
    func admitted(_ lookup: SessionLookup, ofGroup group: Int) -> SessionLookup {
        guard case .active(let session) = lookup, let site = site(ofGroup: group),
            !site.sources.contains(session.source)
        else { return lookup }
        return .missing(SessionEndReason.sourceRemoved.unauthorizedReason)
    }
}
