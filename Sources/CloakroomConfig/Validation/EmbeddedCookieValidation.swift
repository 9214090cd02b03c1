import CloakroomCore

/// What a session cookie requires that browsers send with requests of other sites, and in frames there.
///
/// `SameSite` protects such a session from no page. A field that only pages of listed origins can add has to do that.
enum EmbeddedCookieValidation {
    static func check(
        _ session: SessionConfiguration, _ crossSite: CrossSiteConfiguration, scope: ConfigScope, sites: SitesSection
    ) {
        let (cookie, scope, device) = (session.cookie, scope.sectionWithDefaults("cookie"), scope.path + ["device"])
        guard !scope.isInvalid("sameSite") else { return }
        if cookie.isPartitioned {
            if cookie.sameSite != .always {
                scope.report(
                    "requires sameSite: None: browsers send no other cookie in frames of other sites",
                    "write session.cookie.sameSite: None, or leave this out", at: "partitioned",
                    becauseOf: [scope.path + ["sameSite"]])
            }
            if session.device.mode != .off {
                scope.report(
                    "conflicts with session.device: browsers bind no session with such a cookie",
                    "leave it out, or write session.device.mode: off", at: "partitioned",
                    becauseOf: [device + ["mode"]])
            }
        }
        guard cookie.sameSite == .always else { return }
        func require(_ isMet: Bool, _ message: String, _ remedy: String, becauseOf cause: [String]) {
            if !isMet { scope.report(message, remedy, at: "sameSite", becauseOf: [cause]) }
        }
        require(
            cookie.isSecure, "None requires secure: browsers reject the cookie otherwise",
            "leave secure out, or write Lax", becauseOf: scope.path + ["secure"])
        require(
            crossSite.requiredField != nil,
            "None requires csrf.requireHeader: any page can cause requests with the cookie",
            "write csrf.requireHeader: X-CSRF=1, or Lax", becauseOf: ["csrf", "requireHeader"])
        require(
            !(crossSite.trustedOrigins + crossSite.corsOrigins).isEmpty,
            "None requires the origins whose pages use the gateway", "list them in cors.origins or csrf.trustedOrigins",
            becauseOf: ["cors", "origins"])
        let shared =
            [(scope, cookie.domain)] + sites.items.map { (SitesSection.cookie($0.scope), $0.configuration.domain) }
        for (section, domain) in shared where domain != nil {
            section.report(
                "conflicts with session.cookie.sameSite: None", "leave it out, or write Lax", at: "domain",
                becauseOf: [scope.path + ["sameSite"]])
        }
    }
}
