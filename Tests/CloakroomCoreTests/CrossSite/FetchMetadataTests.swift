import CloakroomCore
import TestSupport
import Testing

@Suite("The metadata of a request")
struct FetchMetadataTests {
    private static let html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

    @Test(
        "A navigation in a tab is recognized",
        arguments: [
            FetchMetadata(isGET: true, mode: "navigate", destination: "document", accept: html),
            FetchMetadata(isGET: true, mode: "navigate", destination: "document"),
            FetchMetadata(isGET: true, accept: html), FetchMetadata(isGET: true, accept: "TEXT/HTML ; q=0.1"),
        ])
    func navigation(request: FetchMetadata) {
        expect(request.isNavigation)
    }

    @Test(
        "A page is for requests that accept HTML and that no script sent, whatever their method",
        arguments: [
            (FetchMetadata(isGET: true, mode: "navigate", accept: html), true),
            (FetchMetadata(isGET: false, mode: "navigate", destination: "iframe", accept: html), true),
            (FetchMetadata(isGET: true, accept: html), true), (FetchMetadata(isGET: true, mode: "navigate"), false),
            (FetchMetadata(isGET: true, mode: "navigate", accept: "text/html;q=0"), false),
            (FetchMetadata(isGET: true, mode: "cors", accept: html), false),
            (FetchMetadata(isGET: true, mode: "navigate, cors", accept: html), false),
            (FetchMetadata(isGET: true, accept: "*/*"), false), (FetchMetadata(isGET: true), false),
            (FetchMetadata(isGET: true, accept: "text/html;level=1;q=0.0 , text/html ; q=0.01"), true),
            (FetchMetadata(isGET: true, accept: "text/html;level=1 ; q=0.0, xtext/html, text/htmlx"), false),
        ])
    func shown(request: FetchMetadata, isShown: Bool) {
        expect(request.isShown, equals: isShown)
    }

    @Test(
        "Rule 144: a script sets fields of its own in the modes but no-cors, and reads no response to a navigation",
        arguments: [
            ("navigate", true, true), ("no-cors", false, false), ("cors", true, false), ("same-origin", true, false),
            ("No-CORS", true, false), (nil, false, false),
        ] as [(String?, Bool, Bool)])
    func scripts(mode: String?, mayHaveScriptFields: Bool, hidesResponse: Bool) {
        let request = FetchMetadata(isGET: false, mode: mode, destination: "document")
        expect(request.mayHaveScriptFields == mayHaveScriptFields && request.hidesResponse == hidesResponse)
        // Of a service worker, or of a frame.
        expect(!FetchMetadata(isGET: false, mode: mode, destination: "empty").hidesResponse)
        expect(!FetchMetadata(isGET: false, mode: mode).hidesResponse)
    }

    @Test("Only the first 1,024 bytes of Accept are read", arguments: [",", ";", "a,", "a;", "text/html;q=0,"])
    func bound(unit: String) {
        let filler = String(repeating: unit, count: 2_000)
        let start = filler.prefix((1_024 - 10) / unit.count * unit.count).dropLast() + ","
        expect(FetchMetadata(isGET: true, accept: start + "text/html").isShown)
        expect(FetchMetadata(isGET: true, accept: start + "text/html," + filler).isShown)
        expect(!FetchMetadata(isGET: true, accept: filler + ",text/html").isShown)
    }

    @Test(
        "Identity rule 11: whatever is not a navigation is never redirected",
        arguments: [
            FetchMetadata(isGET: true), FetchMetadata(isGET: true, accept: "*/*"),
            FetchMetadata(isGET: true, accept: "application/json"), FetchMetadata(isGET: true, accept: ""),
            FetchMetadata(isGET: true, accept: "text/html;q=0"),
            FetchMetadata(isGET: true, accept: "text/html; q=0.00"),
            FetchMetadata(isGET: true, accept: "application/json, x=\"text/html\""),
            FetchMetadata(isGET: true, mode: "cors", destination: "empty", accept: html),
            FetchMetadata(isGET: true, mode: "same-origin", destination: "empty", accept: html),
            FetchMetadata(isGET: true, mode: "navigate", destination: "iframe", accept: html),
            FetchMetadata(isGET: true, mode: "navigate", destination: "frame", accept: html),
            FetchMetadata(isGET: true, mode: "navigate", destination: "embed", accept: html),
            FetchMetadata(isGET: true, mode: "no-cors", destination: "image", accept: html),
            FetchMetadata(isGET: true, mode: "websocket", destination: "empty"),
            FetchMetadata(isGET: true, mode: "navigate", accept: html),
            FetchMetadata(isGET: true, destination: "document", accept: html),
            FetchMetadata(isGET: true, mode: "Navigate", destination: "document", accept: html),
            FetchMetadata(isGET: false, mode: "navigate", destination: "document", accept: html),
            FetchMetadata(isGET: false, accept: html),
            FetchMetadata(isGET: true, mode: "navigate", destination: "document", purpose: "prefetch", accept: html),
            FetchMetadata(isGET: true, mode: "navigate", destination: "document", purpose: "Prefetch;prerender"),
            FetchMetadata(isGET: true, purpose: "prefetch; anonymous-client-ip", accept: html),
        ])
    func xhrIsNeverRedirected(request: FetchMetadata) {
        expect(!request.isNavigation)
    }

    @Test("Every field that decides is named in Vary")
    func vary() {
        for name in ["Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Purpose", "Accept"] {
            expect(FetchMetadata.vary.contains(name))
        }
    }

    @Test(
        "A request is of the gateway's own pages or of the user unless the browser names another origin",
        arguments: [
            (nil, true), ("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false),
            ("", false), ("None", false), ("none, none", false),
        ] as [(String?, Bool)])
    func origin(site: String?, isOwn: Bool) {
        expect(FetchMetadata(isGET: true, site: site).isOwn, equals: isOwn)
    }
}
