import Foundation

/// One step of a browser script. Selectors are CSS; a step waits until its element exists.
enum BrowserStep: Encodable {
    /// The viewport, in CSS pixels.
    case size(width: Int, height: Int)
    /// The value of `prefers-color-scheme`.
    case scheme(Scheme)
    /// Opens an address and waits until the page is loaded.
    case open(String)
    case back
    case reload
    /// Closes the browser and opens it again with the same profile.
    case restart
    /// Continues in another profile, whose browser stays open with its page. A new profile has the cookies of this one, and
    /// keeps them beyond their end, but no keys of devices. The first profile has no name.
    case profile(String)
    /// Opens tabs at the same moment. Each has to show the text; one that shows the link instead is continued with it. With
    /// a button to confirm, it is clicked once all tabs show it, in the newest tab first. Adds a ``Tabs`` to
    /// ``BrowserRun/values``.
    case tabs(Int, String, confirm: String?, text: String, link: String, cookiePrefix: String)
    case click(String)
    /// Replaces the contents of a field.
    case type(String, into: String)
    /// Presses a key on the focused element: `enter`, `tab`, `escape`.
    case press(String)
    case waitForText(String)
    /// Waits until an element is visible.
    case waitFor(String)
    /// Waits until there is a cookie with a name, which no page needs to be able to read.
    case waitForCookie(String)
    /// Waits until no such element is visible.
    case waitUntilGone(String)
    /// Runs the body of a function; its result, a string, is added to ``BrowserRun/values``.
    case evaluate(String)
    /// Runs axe-core on the page; what it finds, one a line, is added to ``BrowserRun/values``.
    case axe
    case deleteCookies
    /// Records the state of the page under a name of ``BrowserRun/snapshots``.
    case snapshot(String)

    enum Scheme: String, Encodable, CaseIterable {
        case light, dark
    }

    /// What happened in several tabs.
    struct Tabs: Decodable {
        /// The maximum number of cookies with the prefix.
        let most: Int
        /// The number of tabs that were continued with the link.
        let continued: Int
    }

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    private struct Size: Encodable {
        let width: Int
        let height: Int
    }

    private struct Typing: Encodable {
        let text: String
        let into: String
    }

    private struct TabOrder: Encodable {
        let count: Int
        let address: String
        let confirm: String
        let text: String
        let link: String
        let cookiePrefix: String
    }

    func encode(to encoder: any Encoder) throws {
        var step = encoder.container(keyedBy: Key.self)
        switch self {
        case .size(let width, let height): try step.encode(Size(width: width, height: height), forKey: Key("size"))
        case .scheme(let scheme): try step.encode(scheme, forKey: Key("scheme"))
        case .open(let address): try step.encode(address, forKey: Key("open"))
        case .back: try step.encode(true, forKey: Key("back"))
        case .reload: try step.encode(true, forKey: Key("reload"))
        case .restart: try step.encode(true, forKey: Key("restart"))
        case .profile(let name): try step.encode(name, forKey: Key("profile"))
        case .tabs(let count, let address, let confirm, let text, let link, let prefix):
            let order = TabOrder(
                count: count, address: address, confirm: confirm ?? "", text: text, link: link, cookiePrefix: prefix)
            try step.encode(order, forKey: Key("tabs"))
        case .axe: try step.encode(true, forKey: Key("axe"))
        case .click(let selector): try step.encode(selector, forKey: Key("click"))
        case .type(let text, let field): try step.encode(Typing(text: text, into: field), forKey: Key("type"))
        case .press(let key): try step.encode(key, forKey: Key("press"))
        case .waitForText(let text): try step.encode(text, forKey: Key("waitForText"))
        case .waitFor(let selector): try step.encode(selector, forKey: Key("waitFor"))
        case .waitForCookie(let name): try step.encode(name, forKey: Key("waitForCookie"))
        case .waitUntilGone(let selector): try step.encode(selector, forKey: Key("waitUntilGone"))
        case .evaluate(let script): try step.encode(script, forKey: Key("evaluate"))
        case .deleteCookies: try step.encode(true, forKey: Key("deleteCookies"))
        case .snapshot(let name): try step.encode(name, forKey: Key("snapshot"))
        }
    }
}
