// The faults of the page on the screen, as sentences. The source is left out unless `withSource`.
(withSource = true) => {
    const found = [], shown = (one) => one.checkVisibility({ visibilityProperty: true });
    if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than the window");
    const luminance = (color) => {
        const [r, g, b] = color.map((part) => (part / 255 <= 0.03928 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const parsed = (text) => (text.startsWith("color(srgb") ? text.match(/[\d.]+/g).map((n) => 255 * n) : text.match(/[\d.]+/g).map(Number));
    const kept = (act, known = new Map()) => (one) => known.get(one) ?? known.set(one, act(one)).get(one);
    const styled = kept(getComputedStyle);
    const ground = kept((one) => { // luminance behind an element
        if (!one) return 1;
        const parts = parsed(styled(one).backgroundColor);
        return parts.length < 4 || parts[3] > 0 ? luminance(parts.slice(0, 3)) : ground(one.parentElement);
    });
    const ink = kept((one) => luminance(parsed(styled(one).color).slice(0, 3)));
    const scrolls = kept((one) => { // boxes with their own scroll bar around an element
        if (!one) return [];
        const around = scrolls(one.parentElement);
        return styled(one).overflowY === "auto" ? [...around, one.getBoundingClientRect()] : around;
    });
    const inside = (box, one) => scrolls(one).every((edge) => box.top <= edge.bottom - 3 && box.bottom >= edge.top + 3);
    const boxes = [];
    const hidden = "script, style, option, dialog:not([open])" + (withSource ? "" : ", #text");
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const one = node.parentElement, text = node.data.trim();
        if (!text || one.closest(hidden) || !shown(one)) continue;
        const [a, b] = [ink(one), ground(one)];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
        const range = document.createRange();
        range.selectNodeContents(node);
        if (one.closest("header, nav, #legend, #walk, #tabs, #facts, .pane")) {
            for (const box of range.getClientRects()) if (inside(box, one)) boxes.push([box, text, one]);
        }
        const holder = one.closest("button, td, th, p, h1, h2, h3, label, li");
        if (holder && holder.scrollWidth > holder.clientWidth + 1 && holder.clientWidth && styled(holder).display !== "inline") {
            found.push(`cut: ${text.slice(0, 40)}`);
        }
    }
    boxes.sort(([p], [q]) => p.top - q.top);
    for (let i = 0; i < boxes.length; i++) {
        for (let j = i + 1; j < boxes.length && boxes[j][0].top < boxes[i][0].bottom; j++) {
            const [p, q] = [boxes[i][0], boxes[j][0]];
            const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left), high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
            if (wide > 1 && high > 3) found.push(`over each other: ${boxes[i][1].slice(0, 30)} | ${boxes[j][1].slice(0, 30)}`);
        }
    }
    const boards = [globalThis.view?.timeline?.board, ...(globalThis.view?.memory?.maps ?? []).map((map) => map.board), globalThis.view?.together?.board];
    for (const board of boards.filter((one) => one?.labels && one.canvas.clientWidth)) {
        for (const [i, [x, y, wide, high, text]] of board.labels.entries()) {
            if (x + wide > board.width + 1) found.push(`cut on a canvas: ${text}`);
            for (const [u, v, w, h, other] of board.labels.slice(0, i)) {
                const over = Math.min(x + wide, u + w) - Math.max(x, u) > 1 && Math.min(y + high, v + h) - Math.max(y, v) > 3;
                if (over) found.push(`over each other on a canvas: ${text} | ${other}`);
            }
        }
    }
    for (const one of document.querySelectorAll("button, select, input, a[href], #heat, #array")) {
        if (shown(one) && one.tabIndex < 0) found.push(`not by keyboard: ${one.textContent || one.id}`);
    }
    return [...new Set(found)].slice(0, 12);
}
